//! The overlay over links with delay and rate: what an order sees.
