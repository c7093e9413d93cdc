//! What an error of the database says about what was asked.

use tokio_postgres::{
    Error,
    error::{Severity, SqlState},
};

/// What is known of a transaction that did not answer well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing was written, and others were in the way.
    Again,
    /// Nothing was written, and another transaction held a row for as long as one is waited for.
    Locked,
    /// Nothing was written.
    Refused,
    /// It may have been written.
    Unknown,
}

/// What an error says of a transaction that was sent.
pub(super) fn judge(error: &Error) -> Verdict {
    match error.code() {
        // The server ended in the middle of it, and finds out itself when it comes back what of it is on disk.
        Some(_) if error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Panic)) => Verdict::Unknown,
        Some(code) if is_race(code) => Verdict::Again,
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Verdict::Locked,
        Some(code) if is_end(code) => Verdict::Unknown,
        Some(_) => Verdict::Refused,
        None => Verdict::Unknown,
    }
}

/// Whether what changes nothing may be asked again, over another connection.
pub(super) fn passes(error: &Error) -> bool {
    let passes = |code: &SqlState| {
        is_race(code)
            || is_end(code)
            || *code == SqlState::LOCK_NOT_AVAILABLE
            || ["57P", "25"].iter().any(|class| code.code().starts_with(class))
    };
    error.code().is_none_or(passes)
}

/// Others were in the way: a row that they put first, a cycle of locks.
fn is_race(code: &SqlState) -> bool {
    [SqlState::UNIQUE_VIOLATION, SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// The connection ends, or whoever stands between does not know how it ended.
fn is_end(code: &SqlState) -> bool {
    let ends = [SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN, SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN];
    code.code().starts_with("08") || ends.contains(code)
}

/// An error in one line, with what the database says of it.
pub(super) fn told(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
