//! The agent with real processes, and with an orchestrator that does what a test says.

mod lifecycle;
mod orchestrator;
mod process;
mod recovery;
mod world;
