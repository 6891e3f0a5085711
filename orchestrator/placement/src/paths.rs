//! Paths by themselves: algorithms on a directed multigraph whose links keep their own ids, exact and in integers.
//!
//! `yen` lists loop-free paths by cost, `disjoint` finds a pair that does not fail together, `flow` says how much two points
//! can exchange and what limits it, `matrix` routes a whole demand matrix, `hysteresis` keeps a choice until another is
//! worth the move, and `answer` puts them together for two points of a view.
//!
//! Invariants
//! - Parallel links stay apart: a path is a sequence of links, never of points.
//! - Ties are settled by fewer links, then by link ordinals, so equal questions have equal answers.
//! - A sum that does not fit is no path: it is never ranked.

pub mod answer;
pub mod cheapest;
pub mod disjoint;
pub mod flow;
pub mod graph;
pub mod hysteresis;
pub mod matrix;
pub mod wan;
pub mod yen;

pub use answer::{Answer, Protection, answer};
pub use graph::{Bounds, Edge, Graph, GraphError, Path, Weight};
