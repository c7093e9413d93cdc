//! A tool as it is now, and as it was when a form was begun.

use serde_json::Value;
use tollhouse_base::aside::Bulk;
use tollhouse_front::Code;

use super::draft::Draft;
use crate::{
    forms::Fields,
    pages::own,
    visitor::{Refused, Visitor, with_query},
};

/// A tool as it is now.
pub(super) struct Now {
    answer: Bulk,
    /// As the form shows it.
    pub(super) draft: Draft,
    pub(super) revision: u64,
}

impl Now {
    /// Asks for it.
    ///
    /// # Errors
    ///
    /// Where it is another one's, or none.
    pub(super) async fn read(visitor: &Visitor, slug: &str) -> Result<Self, Refused> {
        let answer = own::record(visitor, slug).await?;
        let tool = &answer["endpoint"];
        let version = tool["version"].as_str().unwrap_or_default();
        let handler = source(visitor, slug, version).await?;
        let draft = visitor.made(|| Draft::of(tool, &handler["handler"])).await?;
        let revision = tool["revision"].as_u64().unwrap_or_default();
        Ok(Self { answer, draft, revision })
    }

    /// Its record.
    pub(super) fn tool(&self) -> &Value {
        &self.answer["endpoint"]
    }

    /// The hash of what runs.
    fn version(&self) -> &str {
        self.tool()["version"].as_str().unwrap_or_default()
    }

    /// What a form begins with that begins now.
    pub(super) fn given(&self) -> Given {
        Given { base: self.draft.clone(), revision: self.revision, version: self.version().to_owned() }
    }
}

/// What a form was begun with.
pub(super) struct Given {
    /// As it stood there.
    pub(super) base: Draft,
    pub(super) revision: u64,
    /// The hash of the source in it.
    pub(super) version: String,
}

impl Given {
    /// Of what the form carries.
    ///
    /// # Errors
    ///
    /// Where the source is not to be had.
    pub(super) async fn read(visitor: &Visitor, slug: &str, now: &Now, fields: &Fields) -> Result<Self, Refused> {
        let said = |name: &str| fields.get(name).unwrap_or_default();
        let revision = said("revision").parse().unwrap_or_default();
        let version = said("version").to_owned();
        let mut base = visitor.made(|| Draft::of_written(said("base"))).await?;
        if version == now.version() {
            base.set("source", now.draft.get("source"));
        } else {
            let handler = source(visitor, slug, &version).await?;
            // One that is not kept any more is as if it had been what is there now: what was typed stays, then.
            let source = visitor.made(|| Draft::of(&Value::Null, &handler["handler"])).await?;
            base.set("source", if handler.is_null() { now.draft.get("source") } else { source.get("source") });
        }
        Ok(Self { base, revision, version })
    }
}

/// A version's handler; null where there is none.
async fn source(visitor: &Visitor, slug: &str, version: &str) -> Result<Bulk, Refused> {
    let path = with_query(&format!("{}/source", own::source(slug)), [("version", version)]);
    match visitor.get(&path).await {
        Err(refused) if refused.is(Code::UnknownVersion) => Ok(Bulk::default()),
        answer => answer,
    }
}
