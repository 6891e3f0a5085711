//! The saga against simulated agents.

mod agent;
mod cases;
mod straight;
mod trouble;
mod world;
