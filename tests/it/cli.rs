//! The command line against a live host: the real binary, with a home folder of its own, as people and programs run it.

mod bars;
mod call;
mod changes;
mod codes;
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
mod terminal;
