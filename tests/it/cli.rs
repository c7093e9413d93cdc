//! The command line with a real host. The real binary runs with a temporary home folder, as people
//! and programs use it.

mod call;
mod changes;
mod codes;
mod conventions;
mod day;
mod deploys;
mod devs;
mod endpoints;
mod everything;
mod folders;
mod follow;
mod harness;
mod hostile;
mod json;
mod key;
mod profiles;
mod reconciled;
mod recorded;
mod shown;
mod since;
mod streamed;
mod terminal;
mod unresolved;
mod upstreams;
