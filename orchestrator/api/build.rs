//! The console is embedded from `web/dist`; a build without it serves a page that says how to build it.
fn main() {
    let dist = std::path::Path::new("../../web/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    if !dist.exists() && std::fs::create_dir_all(dist).is_err() {
        println!("cargo:warning=web/dist could not be made: the console will be missing");
    }
}
