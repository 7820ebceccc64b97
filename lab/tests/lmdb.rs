//! The experiments on LMDB: the cases of every key-value engine.

mod keyed;

use groupcommit_lab::engine::Engine;

keyed_cases!(Engine::Lmdb);
