//! New migration files alone do not make the `migrate!` macro run again.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
