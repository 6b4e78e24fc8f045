//! [`Frr`]: FRR's daemons in a router's namespace, and the routes that are set through them.
//!
//! A router then does what its own software says, as one of a WAN does: routes are configured by `vtysh`, as by an operator,
//! staticd and zebra bring them into the kernel, and the kernel is asked whether they came. The daemons have a process
//! namespace of their own. Its first process ends with the keeper, and all others end with that one. To have each daemon killed
//! with its parent would not do, because that wish is lost when it changes its user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::netlink::{Netlink, Route};
use crate::error::TestbedError;

/// Where distributions put the daemons.
const FOLDERS: [&str; 4] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin", "/usr/local/lib/frr"];
/// What the first process of a router runs; `$1` is where the daemons are, `$2` the router's folder. staticd looks for zebra once and then only
/// after a while, so it starts when zebra is there.
const SCRIPT: &str = r#"
options="--vty_socket $2 -z $2/zserv.api -f /dev/null -P 0 --log stdout"
"$1/zebra" $options -i "$2/zebra.pid" >"$2/zebra.log" 2>&1 &
while [ ! -S "$2/zserv.api" ]; do sleep 0.02; done
"$1/staticd" $options -i "$2/staticd.pid" >"$2/staticd.log" 2>&1 &
wait
"#;
/// How long to sleep between two checks whether something has happened.
const PAUSE: Duration = Duration::from_millis(2);
/// How many checks there are before it is an error.
const PATIENCE: u32 = 5000;

/// How programs are run in a router's namespace.
#[derive(Clone, Debug)]
pub struct Launch {
    /// A command that is followed by the number of the namespace, `--` and the program to become.
    pub enter: Vec<OsString>,
    /// The testbed's folder.
    pub folder: PathBuf,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Frr {
    daemons: Child,
    shell: Child,
    folder: PathBuf,
    /// The routes that are set: by table and destination, the next hop and the device.
    known: BTreeMap<(u32, Ipv4Addr), (Ipv4Addr, String)>,
}

fn failed(why: impl std::fmt::Display) -> TestbedError {
    TestbedError::system("run FRR", why)
}

/// Where the daemons are, if FRR is installed.
fn installed() -> Result<&'static str, TestbedError> {
    let here = |it: &&str| Path::new(it).join("zebra").exists();
    FOLDERS.into_iter().find(here).ok_or_else(|| {
        let folders = FOLDERS.join(", ");
        TestbedError::system(
            "have FRR as routers",
            format!("it is not installed (there is no zebra in any of {folders}); install it, or leave out `routers = \"frr\"`"),
        )
    })
}

/// The numbers of the user that the daemons run as.
fn user() -> Result<(u32, u32), TestbedError> {
    let users = std::fs::read_to_string("/etc/passwd").map_err(failed)?;
    let found = users.lines().find_map(|line| {
        let mut words = line.strip_prefix("frr:")?.split(':').skip(1);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    found.ok_or_else(|| failed("there is no user `frr`, as which its daemons run"))
}

/// Waits until `is_so`, or gives up with an error that says `what`.
fn until(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, TestbedError>,
) -> Result<(), TestbedError> {
    for _ in 0..PATIENCE {
        if is_so()? {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err(failed(format!("{what} within {} s", (PAUSE * PATIENCE).as_secs())))
}

impl Frr {
    /// Starts the daemons of a router whose namespace this process holds under a number.
    pub(super) fn start(
        launch: &Launch,
        router: usize,
        namespace: i32,
    ) -> Result<Self, TestbedError> {
        let programs = installed()?;
        let folder = launch.folder.join(format!("frr{router}"));
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let (user, group) = user()?;
        std::os::unix::fs::chown(&folder, Some(user), Some(group)).map_err(failed)?;
        let (program, words) = launch.enter.split_first().ok_or_else(|| failed("no program"))?;
        let mut command = Command::new(program);
        command.args(words).arg(namespace.to_string()).args(["--", "unshare", "--pid", "--fork"]);
        command.args(["--kill-child=KILL", "--", "sh", "-c", SCRIPT, "sh", programs]).arg(&folder);
        let log = || File::create(folder.join("log")).map_err(failed);
        command.stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        let mut daemons = command.spawn().map_err(failed)?;
        let ready = folder.join("staticd.vty");
        until("FRR did not start", || match daemons.try_wait() {
            Ok(None) => Ok(ready.exists()),
            _ => Err(failed(format!("it ended at once; {} may say why", folder.display()))),
        })?;
        let mut shell = Command::new("vtysh");
        shell.arg("--vty_socket").arg(&folder).args(["-d", "staticd"]);
        let said = || File::create(folder.join("vtysh.log")).map_err(failed);
        shell.stdin(Stdio::piped()).stdout(said()?).stderr(said()?);
        let shell = shell.spawn().map_err(|it| failed(format!("vtysh: {it}")))?;
        let mut made = Self { daemons, shell, folder, known: BTreeMap::new() };
        made.say("configure terminal\n")?;
        Ok(made)
    }

    fn say(&mut self, text: &str) -> Result<(), TestbedError> {
        let input = self.shell.stdin.as_mut().ok_or_else(|| failed("vtysh has no input"))?;
        input.write_all(text.as_bytes()).and_then(|()| input.flush()).map_err(|it| {
            failed(format!("vtysh: {it}; {} may say why", self.folder.join("vtysh.log").display()))
        })
    }

    /// Sets a table's route to a destination by a device, or removes it where none is given. Returns when the kernel has it so.
    pub(super) fn set(
        &mut self,
        route: Route,
        device: Option<&str>,
        kernel: &mut Netlink,
    ) -> Result<(), TestbedError> {
        let table = route.table.ok_or_else(|| failed("a route of no table"))?;
        let line = |to: &(Ipv4Addr, String)| {
            format!("ip route {}/{} {} {} table {table}\n", route.to, route.bits, to.0, to.1)
        };
        let new = device.map(|it| (route.via, it.to_owned()));
        let old = self.known.get(&(table, route.to)).cloned().filter(|it| Some(it) != new.as_ref());
        // The new route is set before the old one is removed, so that there always is one.
        let mut text = new.as_ref().map(line).unwrap_or_default();
        text += &old.as_ref().map(|it| format!("no {}", line(it))).unwrap_or_default();
        self.say(&text)?;
        let wanted = new.as_ref().map(|it| it.0);
        let what = match wanted {
            Some(via) => format!("the route to {} by {via} did not come into the kernel", route.to),
            None => format!("the route to {} did not go out of the kernel", route.to),
        };
        until(&what, || Ok(kernel.gateway(table, route.to)? == wanted))?;
        match new {
            Some(new) => self.known.insert((table, route.to), new),
            None => self.known.remove(&(table, route.to)),
        };
        Ok(())
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        // The end of its input ends the shell; the daemons end with their first process, and that with its parent.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        let _ = self.daemons.kill();
        let _ = self.daemons.wait();
    }
}
