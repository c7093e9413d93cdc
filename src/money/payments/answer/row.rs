//! The stored format of answers. A row with a complete answer has the same format as in every version. The other format
//! is used only if all replicas read it ([`Replica::may_write`](tollhouse_replica::Replica::may_write)).

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollhouse_store::{Formatted, Value, read_postcard, write_postcard};

use super::{super::record::StoredAnswer, PendingObject};

/// The row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::payments) enum AnswerRow {
    /// A complete answer.
    Whole(StoredAnswer),
    /// An answer without its body, and the object that has it.
    Apart(StoredAnswer, AnswerObject),
}

/// The object with an answer's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::payments) struct AnswerObject {
    pub(super) name: String,
    /// The hash in hex.
    pub(super) sha256: String,
}

impl AnswerRow {
    pub(super) fn of(answer: &StoredAnswer, promised: Option<&PendingObject>) -> Self {
        match promised {
            Some(PendingObject { name, sha256, .. }) => {
                let answer = StoredAnswer { body: Bytes::new(), ..answer.clone() };
                Self::Apart(answer, AnswerObject { name: name.clone(), sha256: sha256.clone() })
            }
            None => Self::Whole(answer.clone()),
        }
    }

    pub(super) fn object(&self) -> Option<&AnswerObject> {
        match self {
            Self::Whole(_) => None,
            Self::Apart(_, object) => Some(object),
        }
    }

    /// Returns the answer, without its body if that is an object.
    pub(super) fn into_answer(self) -> StoredAnswer {
        match self {
            Self::Whole(answer) | Self::Apart(answer, _) => answer,
        }
    }
}

impl Value for AnswerRow {
    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(answer) => answer.to_bytes(),
            Self::Apart(answer, object) => DetachedAnswer(answer.clone(), object.clone()).to_bytes(),
        }
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let apart = DetachedAnswer::of_bytes(bytes).map(|DetachedAnswer(answer, object)| Self::Apart(answer, object));
        apart.or_else(|| StoredAnswer::of_bytes(bytes).map(Self::Whole))
    }
}

/// The encoded form of an answer without its body, and its object.
#[derive(Serialize, Deserialize)]
struct DetachedAnswer(StoredAnswer, AnswerObject);

impl Formatted for DetachedAnswer {
    const FORMAT: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        (format == Self::FORMAT).then(|| read_postcard(bytes)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &'static [u8]) -> StoredAnswer {
        let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        StoredAnswer { status: 200, headers, body: Bytes::from_static(body), receipt_id: "r".to_owned(), settlement: None }
    }

    #[test]
    fn rows_of_whole_answers_are_those_of_every_version_before() {
        let (row, answer) = (AnswerRow::of(&answer(b"{}"), None), answer(b"{}"));
        assert_eq!(row.to_bytes(), answer.to_bytes());
        for bytes in [answer.to_bytes(), answer.to_bytes()[2..].to_vec()] {
            assert_eq!(AnswerRow::of_bytes(&bytes), Some(AnswerRow::Whole(answer.clone())));
        }
    }

    #[test]
    fn a_row_that_names_an_object_is_no_whole_answer_to_anybody() {
        let object = AnswerObject { name: "ab".repeat(16), sha256: "cd".repeat(32) };
        let row = AnswerRow::Apart(answer(b""), object);
        assert_eq!(AnswerRow::of_bytes(&row.to_bytes()), Some(row.clone()));
        assert_eq!(StoredAnswer::of_bytes(&row.to_bytes()), None, "a version that does not know of objects gives no empty answer");
        assert_eq!(AnswerRow::of_bytes(&row.to_bytes()[..row.to_bytes().len() - 1]), None);
    }
}
