//! Placeholder.
/// x
#[derive(Debug)]
pub struct Catalogue;
