//! What the engines of servers share: rules for the attempts at a group, which know no server; who
//! serves connections; and those that reads share.
//!
//! ```text
//!   Members ──► an attempt ──► committed ──► Sizes: the next may be larger
//!      ▲            └──► an obstacle ──► Trials: again, smaller or after a pause; or never more
//!      └── what is beyond the size goes back into the queue
//! ```
//!
//! A call of [`Engine::execute`](groupcommit_core::Engine::execute) commits once at most, so that a
//! commit whose outcome stays open leaves no other member in doubt, and so that what is asked of the
//! server later is about the commit that they were all in.

mod insist;
pub mod lines;
mod members;
pub mod runtime;
mod sizes;
mod trials;

pub use insist::{insist, pause};
pub use members::{Member, Members};
pub use sizes::Sizes;
pub use trials::{Next, Obstacle, Trials};
