//! Sessions: after signing in once, a browser presents a token instead of the credential.
//!
//! A session stores the credential encrypted with a key that only the token contains, so that the store alone gives
//! access to nothing. Each request that uses the session checks whether the credential is still valid: a session has no
//! power of its own.

mod cookie_token;

use std::{
    cmp::Reverse,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tollhouse_base::boxed;

use serde::{Deserialize, Serialize};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_store::{Batch, Direction, Durability, Row, Store, StoreError, Table, TerminatedText, schema, update};
use zeroize::Zeroizing;

pub use self::cookie_token::{SessionName, Token};

const SESSIONS: Table<SessionKey, Session> = schema::SESSIONS.holding();
tollhouse_store::json_values!(Session);

/// The account, and the hash of the session's id.
type SessionKey = (TerminatedText<String>, String);

/// Minimum time between two writes of a session's last use, in milliseconds.
const WRITE_INTERVAL_MS: u64 = 60_000;
/// How long a sign-in link is valid, in milliseconds.
const LINK_MS: u64 = 60_000;
/// Number of sessions read at once.
const PAGE: usize = 500;
/// Maximum number of a request's tokens that are tried from each end.
const MAX_TRIED: usize = 8;
/// Maximum length of a browser's name, in characters.
const MAX_BROWSER: usize = 120;

/// The kind of credential that was used to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    Admin,
    Builder,
    /// The token of a developer credit.
    Holder,
}

/// Limits on the duration and number of sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// How long a session can be unused before it ends, in milliseconds.
    pub idle_ms: u64,
    /// How long a session lasts however much it is used, in milliseconds.
    pub age_ms: u64,
    /// Maximum number of sessions of one account. A further session ends the one that was unused longest.
    pub max: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { idle_ms: 12 * 3_600 * 1_000, age_ms: 7 * 24 * 3_600 * 1_000, max: 20 }
    }
}

/// A session, as shown to its owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    pub kind: SessionKind,
    pub created_at: Timestamp,
    /// When it was last used, to about a minute.
    pub seen_at: Timestamp,
    /// The name that the browser gave.
    pub browser: String,
    /// The credential, encrypted with the token's key, in base64url.
    sealed: String,
}

/// A session that was opened with its token.
pub struct OpenSession {
    /// The account: an id, or `admin`.
    pub owner: String,
    /// The name of the session among those of the account.
    pub name: SessionName,
    pub kind: SessionKind,
    pub credential: Zeroizing<String>,
    /// The token that forms with side effects must contain, in hex (CSRF protection).
    pub form_token: String,
}

/// Why signing in failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    #[error("no random bytes are available: {0}")]
    Random(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession").field("owner", &self.owner).field("kind", &self.kind).finish_non_exhaustive()
    }
}

pub struct Sessions {
    store: Arc<dyn Store>,
    clock: Clock,
    settings: SessionSettings,
    /// Number of times that this host may have ended sessions.
    revision: AtomicU64,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Name of the round of [`Sessions::sweep`] in the store.
    pub const ROUND: &str = "sessions";

    pub fn new(store: Arc<dyn Store>, clock: Clock, settings: SessionSettings) -> Self {
        Self { store, clock, settings, revision: AtomicU64::new(0) }
    }

    /// Begins a session of `owner`, who has just presented `credential`. If the account then has too many, those unused
    /// longest end.
    #[boxed]
    pub async fn begin(&self, owner: &str, kind: SessionKind, credential: &str, browser: &str) -> Result<Token, SessionError> {
        let browser = browser.chars().filter(|letter| !letter.is_control()).take(MAX_BROWSER).collect();
        self.add(Token::of(owner), kind, credential, browser).await
    }

    /// Creates a link that signs in as `owner` once, within a minute, without the credential. Returns its token and
    /// expiry.
    #[boxed]
    pub async fn link(&self, owner: &str, kind: SessionKind, credential: &str) -> Result<(Token, Timestamp), SessionError> {
        let token = self.add(Token::linking(owner), kind, credential, String::new()).await?;
        Ok((token, self.clock.now().plus_millis(LINK_MS)))
    }

    async fn add(
        &self,
        token: Result<Token, getrandom::Error>,
        kind: SessionKind,
        credential: &str,
        browser: String,
    ) -> Result<Token, SessionError> {
        let token = token.map_err(|error| SessionError::Random(error.to_string()))?;
        let now = self.clock.now();
        let sealed = token.seal(credential).ok_or_else(|| SessionError::Random("a credential was not sealed".to_owned()))?;
        let session = Session { kind, created_at: now, seen_at: now, browser, sealed };
        let position = session_key(&token.owner, &token.name());
        let (position, session) = (&position, &session);
        let beginning = update(&*self.store, Durability::Buffered, |mut tx| async move {
            let others = tx.page(&SESSIONS, &SESSIONS.under(&position.0), PAGE, Direction::Forward).await?;
            let (ended, mut living): (Vec<_>, Vec<_>) = others.into_iter().partition(|row| self.has_ended(row));
            living.sort_by_key(|row| Reverse(row.value.seen_at));
            for row in ended.iter().chain(living.iter().skip(self.settings.max.saturating_sub(1))) {
                tx.remove(&SESSIONS, row);
            }
            tx.put(&SESSIONS, position, session);
            tx.answer::<_, SessionError>(())
        });
        let begun = beginning.await;
        self.note_end();
        begun?;
        Ok(token)
    }

    /// Opens the session of a token and records the use. Returns `None` if there is none or it has ended.
    #[boxed]
    pub async fn open(&self, token: &Token) -> Result<Option<OpenSession>, StoreError> {
        if token.is_link() {
            return Ok(None);
        }
        let Some((row, opened)) = self.find(token).await? else { return Ok(None) };
        self.record_use(&row).await;
        Ok(Some(opened))
    }

    /// Returns the account that a link would sign in, without using the link.
    #[boxed]
    pub async fn linked(&self, token: &Token) -> Result<Option<String>, StoreError> {
        Ok(self.find(token).await?.filter(|_| token.is_link()).map(|(_, opened)| opened.owner))
    }

    /// Opens the first valid session among `tokens`. There can be several because a page on another port can set
    /// cookies of the same name before the right one. If there are many, only the first and the last few are tried.
    pub async fn open_any(&self, tokens: &[Token]) -> Result<Option<OpenSession>, StoreError> {
        let last = tokens.len().saturating_sub(MAX_TRIED).max(MAX_TRIED.min(tokens.len()));
        for token in tokens.iter().take(MAX_TRIED).chain(&tokens[last..]) {
            if let Some(opened) = self.open(token).await? {
                return Ok(Some(opened));
            }
        }
        Ok(None)
    }

    /// Uses a link to sign in. It works only once.
    #[boxed]
    pub async fn redeem(&self, token: &Token) -> Result<Option<OpenSession>, StoreError> {
        let Some((row, opened)) = self.find(token).await?.filter(|_| token.is_link()) else { return Ok(None) };
        let mut batch = Batch::new();
        batch.remove(&SESSIONS, &row);
        Ok(batch.commit_if_unchanged(&*self.store, Durability::Buffered).await?.then_some(opened))
    }

    /// Returns the session or link of a token, if it has not ended.
    async fn find(&self, token: &Token) -> Result<Option<(Row<SessionKey, Session>, OpenSession)>, StoreError> {
        let name = token.name();
        let Some(row) = SESSIONS.row(&*self.store, &session_key(&token.owner, &name)).await? else { return Ok(None) };
        let Some(credential) = token.unseal(&row.value.sealed).filter(|_| !self.has_ended(&row)) else { return Ok(None) };
        let (owner, kind, form_token) = (token.account().to_owned(), row.value.kind, token.form_token());
        Ok(Some((row, OpenSession { owner, name, kind, credential, form_token })))
    }

    /// Records that a session was used. If the write fails, the next use tries again.
    async fn record_use(&self, row: &Row<SessionKey, Session>) {
        let now = self.clock.now();
        if now.0 < row.value.seen_at.0.saturating_add(WRITE_INTERVAL_MS) {
            return;
        }
        let mut batch = Batch::new();
        batch.replace(&SESSIONS, row, &Session { seen_at: now, ..row.value.clone() });
        if let Err(error) = batch.commit(&*self.store, Durability::Buffered).await {
            tracing::debug!(%error, "the last use of a session could not be recorded");
        }
    }

    /// Lists the current sessions of an account, the most recently used first.
    #[boxed]
    pub async fn list(&self, owner: &str) -> Result<Vec<(SessionName, Session)>, StoreError> {
        let rows = SESSIONS.page(&*self.store, &SESSIONS.under(&TerminatedText(owner.to_owned())), PAGE, Direction::Forward).await?;
        let mut living: Vec<_> = rows.into_iter().filter(|row| !self.has_ended(row)).map(|row| (row.key.1, row.value)).collect();
        living.sort_by_key(|(_, session)| Reverse(session.seen_at));
        Ok(living)
    }

    /// Ends a session of an account. Does nothing if there is none with this name.
    #[boxed]
    pub async fn end(&self, owner: &str, name: &str) -> Result<(), StoreError> {
        if name.len() != cookie_token::NAME_DIGITS {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.delete(&SESSIONS, &session_key(owner, name));
        let ended = batch.commit(&*self.store, Durability::Buffered).await.map(|_| ());
        self.note_end();
        ended
    }

    /// Ends all sessions of an account.
    #[boxed]
    pub async fn end_all(&self, owner: &str) -> Result<(), StoreError> {
        let ended = SESSIONS.clear(&*self.store, &SESSIONS.under(&TerminatedText(owner.to_owned())), u64::MAX).await.map(|_| ());
        self.note_end();
        ended
    }

    /// Returns a number that changes when this host ends sessions before their time. Read it before
    /// [`Sessions::is_open`].
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Records that sessions may have ended. Call it even if the store reports an error, because it may have committed.
    fn note_end(&self) {
        self.revision.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether a session of an account has not ended. This does not count as a use.
    #[boxed]
    pub async fn is_open(&self, owner: &str, name: &str) -> Result<bool, StoreError> {
        let row = SESSIONS.row(&*self.store, &session_key(owner, name)).await?;
        Ok(row.is_some_and(|row| !self.has_ended(&row)))
    }

    /// Removes sessions that have ended, in one turn of a [round](tollhouse_store::sweep_cursor) that continues where the last
    /// sweep stopped.
    ///
    /// # Errors
    ///
    /// Errors of the store. The next call tries the rest again.
    #[boxed]
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let mut round = SESSIONS.round(&*self.store, Self::ROUND, Direction::Forward, self.clock.now()).await?;
        while let Some(rows) = round.rows(PAGE).await? {
            for row in rows.iter().filter(|row| self.has_ended(row)) {
                let mut batch = Batch::new();
                batch.remove(&SESSIONS, row);
                if batch.commit_if_unchanged(&*self.store, Durability::Buffered).await? {
                    SESSIONS.expired(1);
                }
            }
        }
        round.end().await
    }

    fn has_ended(&self, row: &Row<SessionKey, Session>) -> bool {
        let (now, session) = (self.clock.now(), &row.value);
        let over = |since: Timestamp, ms: u64| now.0 >= since.0.saturating_add(ms);
        if cookie_token::is_link(&row.key.0.0) {
            return over(session.created_at, LINK_MS);
        }
        over(session.seen_at, self.settings.idle_ms) || over(session.created_at, self.settings.age_ms)
    }
}

fn session_key(owner: &str, name: &str) -> SessionKey {
    (TerminatedText(owner.to_owned()), name.to_owned())
}

#[cfg(test)]
mod tests;
