//! A clean Debian system in a folder, in which programs run as if it were the machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Failure, packages, shell};

/// Packages that the system has besides the base. The dependencies of our package are installed in
/// this way.
const INCLUDED: &str = "adduser,ca-certificates,util-linux";

/// A folder with a Debian system. Dropping it removes the folder.
pub(crate) struct Root {
    pub(crate) folder: PathBuf,
}

impl Root {
    /// Unpacks a system of the same Debian release as this machine. It is fetched from Debian's
    /// mirror once.
    pub(crate) fn unpack(cache: &Path) -> Result<Self, Failure> {
        if shell::output(Command::new("id").arg("-u")).is_none_or(|id| id.trim() != "0") {
            return Err("only root can install the package into a clean system; use `--short` without root".to_owned());
        }
        if shell::find("mmdebstrap").is_none() {
            packages::install(&["mmdebstrap"])?;
        }
        let suite = suite().ok_or("packages can be tested on Debian only")?;
        let archive = cache.join(format!("root-{suite}.tar"));
        if !archive.is_file() {
            let fresh = archive.with_extension("new.tar");
            let mut fetch = Command::new("mmdebstrap");
            fetch.args(["--variant=minbase", &format!("--include={INCLUDED}"), &suite]).arg(&fresh);
            shell::run_with_progress(&format!("fetching a clean Debian ({suite})"), &mut fetch)?;
            fs::rename(&fresh, &archive).map_err(|reason| reason.to_string())?;
        }
        let folder = cache.join(format!("root-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|reason| format!("cannot create {}: {reason}", folder.display()))?;
        let root = Self { folder };
        shell::run(Command::new("tar").arg("-xpf").arg(&archive).arg("-C").arg(&root.folder))?;
        Ok(root)
    }

    /// Returns a command that runs a program in the system, as root, with its own `/proc` and with
    /// the devices and the network of this machine. The folder becomes the root of a mount
    /// namespace. With `chroot` alone, the process could not create namespaces.
    pub(crate) fn within(&self, words: &[&str]) -> Command {
        const ENTER: &str = "mount --bind \"$0\" \"$0\"
            mount --rbind /dev \"$0/dev\"
            mount --rbind /sys \"$0/sys\"
            mount -t proc proc \"$0/proc\"
            cd \"$0\"
            pivot_root . mnt
            cd /
            umount -l /mnt
            exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", ENTER]).arg(&self.folder).args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// Runs a program in the system and returns its output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, Failure> {
        let done = self.within(words).output().map_err(|reason| format!("cannot start `unshare`: {reason}"))?;
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if done.status.success() {
            Ok(out.into_owned())
        } else {
            Err(format!("`{}` failed in the clean Debian: {out}{err}", words.join(" ")))
        }
    }

    /// Returns the path on this machine of a path in the system.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // All mounts were in namespaces, which have ended, so nothing is mounted there now.
        shell::succeeds(Command::new("rm").args(["-rf", "--one-file-system", "--"]).arg(&self.folder));
    }
}

fn suite() -> Option<String> {
    let about = fs::read_to_string("/etc/os-release").ok()?;
    let debian = about.lines().any(|line| line == "ID=debian");
    let named = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    debian.then(|| named.trim_matches('"').to_owned())
}
