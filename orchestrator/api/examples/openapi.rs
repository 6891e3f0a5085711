//! Prints the description of the interface: `cargo run -p rhumb-api --example openapi > web/openapi.json`.

fn main() {
    match rhumb_api::openapi().to_pretty_json() {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("the description cannot be written: {error}"),
    }
}
