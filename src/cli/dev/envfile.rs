//! The file with a tool's secrets for `dev`.

use std::path::Path;

use zeroize::Zeroizing;

use crate::{
    base::{error::Error, private_files},
    secrets,
    tool::position::{FilePosition, Problem},
    trial::Secret,
};

/// The default file.
const FILE: &str = ".env.dev";

/// Returns the secrets of a folder, each with its line: from `named`, or from the default file if it exists.
pub(super) fn read(folder: &Path, named: Option<&Path>) -> Result<Vec<Secret>, Problem> {
    let usual = folder.join(FILE);
    let (path, file) = named.map_or((usual.as_path(), FILE.to_owned()), |named| (named, named.display().to_string()));
    let wrong = |error: Error| Problem::new("tool", FilePosition::file(&file), error.message);
    let text = private_files::read(path).map_err(wrong)?.map(Zeroizing::new);
    if text.is_none() && named.is_some() {
        return Err(wrong(Error::usage("does not exist")));
    }
    let values = text.map_or(Ok(vec![]), |text| secrets::in_lines(&text, path)).map_err(wrong)?;
    let secret = |(line, name, value)| Secret { name, value, position: FilePosition { line: Some(line), ..FilePosition::file(&file) } };
    Ok(values.into_iter().map(secret).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_has_its_line_and_an_empty_file_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.env");
        let read = |named| read(folder.path(), named);
        assert!(read(None).unwrap().is_empty());
        std::fs::write(folder.path().join(FILE), "# mine\n\n").unwrap();
        assert!(read(None).unwrap().is_empty());
        std::fs::write(folder.path().join(FILE), "# mine\nA=1\n\nexport B=\n").unwrap();
        let listed: Vec<_> = read(None).unwrap().into_iter().map(|secret| format!("{}  {}", secret.position, secret.name)).collect();
        assert_eq!(listed, [".env.dev:2  A", ".env.dev:4  B"]);
        std::fs::write(folder.path().join(FILE), "A=1\nNEW\n").unwrap();
        assert!(read(None).unwrap_err().to_string().starts_with(".env.dev  line 2 of "));
        assert_eq!(read(Some(&file)).unwrap_err().to_string(), format!("{}  does not exist", file.display()));
    }
}
