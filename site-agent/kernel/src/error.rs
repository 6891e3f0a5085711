//! What can go wrong between the driver and the kernel.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("routes in the kernel need Linux; use the overlay here")]
    Unsupported,
    #[error("cannot open a netlink socket; the agent needs CAP_NET_ADMIN")]
    Open(#[source] io::Error),
    #[error("cannot {what}")]
    Refused { what: String, source: io::Error },
    #[error("{setting} is off: {why}; set it to 1")]
    Setting { setting: String, why: &'static str },
    #[error("cannot run nft for {what}; install nftables")]
    NoNft { what: &'static str, source: io::Error },
    #[error("nft refused {what}: {said}")]
    Nft { what: &'static str, said: String },
}

impl KernelError {
    /// An error and its cause in one line.
    pub fn shown(&self) -> String {
        match std::error::Error::source(self) {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}
