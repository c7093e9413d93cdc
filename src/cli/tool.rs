//! A tool as a folder: reads it, compiles and bundles it, runs its cases, and finds the places of problems in its
//! files.

pub(crate) mod bundle;
pub(crate) mod cases;
pub(crate) mod changes;
pub(crate) mod edit;
pub(crate) mod folder;
pub(crate) mod imports;
pub(crate) mod node_modules;
pub(crate) mod position;
pub(crate) mod program;
mod recorded;
pub(crate) mod scaffold;
pub(crate) mod source_map;
pub(crate) mod temp_folder;
pub(crate) mod types;
pub(crate) mod upload;

pub(crate) use self::{
    folder::{Code, Tool, counted},
    position::{FilePosition, Problem},
    temp_folder::TempFolder,
    types::TypesOutcome,
    upload::Upload,
};
