//! Prints what is read in the output of a maker's tool: `cargo run -p rhumb-devices --example read FILE...`

use std::{error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args_os().skip(1) {
        let read = rhumb_devices::read(&fs::read(path)?)?;
        println!("{}", serde_json::to_string_pretty(&read)?);
    }
    Ok(())
}
