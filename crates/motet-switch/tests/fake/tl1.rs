//! A switch that speaks Polatis' TL1: logins, patches, shutters, denials, and alarms in between.

use std::net::SocketAddr;

use motet_switch::PortState;
use motet_switch::layout::Cross;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Fake, Verdict};

pub async fn start(fake: Fake) -> SocketAddr {
    super::serve(fake.switch.clone(), move |stream| talk(fake.clone(), stream)).await
}

/// A command up to its `;`, which may stand between quotes as well.
fn command(inbox: &mut Vec<u8>) -> Option<String> {
    let mut quoted = false;
    let end = inbox.iter().position(|it| {
        quoted ^= *it == b'"';
        *it == b';' && !quoted
    })?;
    let text = String::from_utf8_lossy(&inbox[..end]).trim().to_owned();
    inbox.drain(..=end);
    Some(text)
}

/// `1&2&&4`: 1, and 2 to 4.
fn ports(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    let mut parts = text.split('&').peekable();
    while let Some(part) = parts.next() {
        let first: u32 = part.parse().ok()?;
        if parts.peek() == Some(&"") {
            parts.next();
            all.extend(first..=parts.next()?.parse().ok()?);
        } else {
            all.push(first);
        }
    }
    Some(all)
}

/// Parts between colons that are not between quotes.
fn fields(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ':' if !quoted => all.push(String::new()),
            _ => all.last_mut().unwrap().push(letter),
        }
    }
    all
}

async fn talk(fake: Fake, mut stream: TcpStream) {
    let mut inbox = Vec::new();
    let mut welcome = fake.login.is_none();
    loop {
        let Some(text) = command(&mut inbox) else {
            match stream.read_buf(&mut inbox).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        let fields = fields(&text);
        let field = |at: usize| fields.get(at).map_or("", String::as_str);
        let (verb, what, tag) = (field(0), field(2), field(3));
        let answer = match verb {
            "ACT-USER" => {
                let login = fake.login.unwrap_or(("", ""));
                welcome = welcome || (what, field(5)) == login;
                if welcome { Ok(Vec::new()) } else { Err("PIUI /* Illegal user */".to_owned()) }
            }
            _ if !welcome => Err("PLNA /* Login not active */".to_owned()),
            "RTRV-PATCH" => Ok(fake
                .switch
                .crosses()
                .iter()
                .map(|it| format!("{},{}", it.input, it.output))
                .collect()),
            "RTRV-PORT-SHUTTER" => match ports(what) {
                Some(ports) => {
                    Ok(ports.into_iter().map(|it| format!("{it}:{}", shutter(&fake, it))).collect())
                }
                None => Err("IIAC /* Input, Invalid Access Identifier */".to_owned()),
            },
            "DLT-PATCH" | "ENT-PATCH" => match change(&fake, verb, what).await {
                Verdict::Done => Ok(Vec::new()),
                Verdict::No(words) => Err(format!("SDNC /* {words} */")),
                Verdict::Gone => return,
            },
            _ => Err("ICNV /* Input, Command Not Valid */".to_owned()),
        };
        let body = match answer {
            Ok(lines) => {
                let lines: String = lines.iter().map(|it| format!("   \"{it}\"\r\n")).collect();
                format!("M  {tag} COMPLD\r\n{lines}")
            }
            Err(words) => format!("M  {tag} DENY\r\n   {words}\r\n"),
        };
        let head = "\r\n   FAKE 26-11-16 12:00:00\r\n";
        let alarm = format!("{head}A  17 REPT EVT COM\r\n   \"1:OPM;LOW\"\r\n;");
        let all = format!("IP {tag}\r\n<{alarm}{head}{body};");
        if stream.write_all(all.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn shutter(fake: &Fake, port: u32) -> &'static str {
    match fake.state(port) {
        PortState::Up => "OPEN",
        PortState::Disabled => "CLOSED",
        PortState::Failed => "FAILED",
    }
}

async fn change(fake: &Fake, verb: &str, what: &str) -> Verdict {
    let no = || Verdict::No("no such ports".to_owned());
    if verb == "DLT-PATCH" {
        let Some(inputs) = ports(what) else { return no() };
        let crosses: Vec<Cross> =
            inputs.into_iter().map(|input| Cross { input, output: 0 }).collect();
        return fake.change(&crosses, &[]).await;
    }
    let lists = what.split_once(',').and_then(|it| Some((ports(it.0)?, ports(it.1)?)));
    let Some((inputs, outputs)) = lists.filter(|it| it.0.len() == it.1.len()) else { return no() };
    let crosses: Vec<Cross> =
        inputs.into_iter().zip(outputs).map(|(input, output)| Cross { input, output }).collect();
    fake.change(&[], &crosses).await
}
