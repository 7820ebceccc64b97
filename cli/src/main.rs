//! The groupcommit program.
fn main() {}
