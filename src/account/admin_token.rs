//! The admin token: set in the environment, or created on first start.

use std::{
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use super::{
    credential::random_secret,
    token::{Token, TooShort},
};

/// Why there is no valid admin token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    TooShort(#[from] TooShort),
    #[error("`{0}` can be read by other users; set its mode to 0600")]
    Readable(String),
    #[error("`{0}` cannot be created or read")]
    File(String, #[source] io::Error),
}

/// Returns the `given` token, or else the one in `file`, or else a new one written there with mode 0600.
///
/// # Errors
///
/// The file cannot be read or created or is readable by others, or the token is too short.
pub fn open(given: Option<&str>, file: &Path) -> Result<Token, TokenError> {
    let position = || file.display().to_string();
    let unread = |error| TokenError::File(position(), error);
    let token = match given {
        Some(token) => token.to_owned(),
        None => match std::fs::metadata(file) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => return Err(TokenError::Readable(position())),
            Ok(_) => std::fs::read_to_string(file).map_err(unread)?.trim().to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(file).map_err(unread)?,
            Err(error) => return Err(unread(error)),
        },
    };
    Ok(Token::of(&token)?)
}

fn make(file: &Path) -> io::Result<String> {
    let secret = random_secret().map_err(|error| io::Error::other(error.to_string()))?;
    let token = format!("adm_{secret}");
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    Ok(token)
}
