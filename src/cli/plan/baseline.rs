//! `.tollhouse/base.json`: the state of a folder's tool when the folder was last published or pulled.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::private_files;

/// The state of a tool at a revision.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Baseline {
    pub(crate) revision: u64,
    /// Hash of the handler.
    pub(crate) version: String,
    pub(crate) fields: Map<String, Value>,
}

const FILE: &str = ".tollhouse/base.json";

impl Baseline {
    /// Reads the base of a revision, if the folder has it. Without it the plan is less precise, but nothing is lost.
    pub(crate) fn read(folder: &Path, revision: u64) -> Option<Self> {
        let text = private_files::read(&folder.join(FILE)).ok()??;
        serde_json::from_str(&text).ok().filter(|base: &Self| base.revision == revision)
    }

    pub(crate) fn write(&self, folder: &Path) {
        let file = folder.join(FILE);
        let Ok(text) = serde_json::to_string_pretty(self) else { return };
        let alongside = file.with_extension(format!("new-{}", std::process::id()));
        _ = fs::create_dir_all(folder.join(".tollhouse"))
            .and_then(|()| fs::write(&alongside, text))
            .and_then(|()| fs::rename(&alongside, &file));
    }
}
