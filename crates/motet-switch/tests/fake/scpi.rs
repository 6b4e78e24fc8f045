//! A switch that speaks SCPI: the commands that Polatis publishes, an error queue, and `*opc?`.

use std::collections::VecDeque;
use std::net::SocketAddr;

use motet_switch::PortState;
use motet_switch::layout::Cross;
use motet_switch::scpi::text;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Fake, Verdict};

pub async fn start(fake: Fake) -> SocketAddr {
    super::serve(fake.switch.clone(), move |stream| talk(fake.clone(), stream)).await
}

async fn talk(fake: Fake, stream: TcpStream) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut errors: VecDeque<String> = VecDeque::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut answers = Vec::new();
        for part in line.split(';') {
            let part = part.trim();
            let (command, arguments) = part.split_once(' ').unwrap_or((part, ""));
            match command {
                "*idn?" => answers.push("Polatis,Fake,0,1".to_owned()),
                "*opc?" => answers.push("1".to_owned()),
                "*cls" => errors.clear(),
                ":syst:err?" => {
                    answers.push(errors.pop_front().unwrap_or("0,\"No error\"".to_owned()));
                }
                ":oxc:swit:conn:stat?" => answers.push(text::write_crosses(&fake.switch.crosses())),
                ":oxc:swit:port:stat?" => {
                    let letter = |port| match fake.state(port) {
                        PortState::Up => "E",
                        PortState::Disabled => "D",
                        PortState::Failed => "F",
                    };
                    let all: Vec<&str> = (1..=fake.ports).map(letter).collect();
                    answers.push(format!("({})", all.join(",")));
                }
                ":oxc:swit:conn:add" | ":oxc:swit:conn:sub" => {
                    let Ok(seen) = text::read_crosses(arguments) else {
                        errors.push_back("-102,\"Syntax error\"".to_owned());
                        continue;
                    };
                    let crosses: Vec<Cross> = seen.iter().map(|it| it.cross).collect();
                    let verdict = if command.ends_with("add") {
                        fake.change(&[], &crosses).await
                    } else {
                        fake.change(&crosses, &[]).await
                    };
                    match verdict {
                        Verdict::Done => {}
                        Verdict::No(words) => {
                            errors.push_back(format!("-222,\"{}\"", words.replace('"', "\"\"")));
                        }
                        Verdict::Gone => return,
                    }
                }
                _ => errors.push_back("-113,\"Undefined header\"".to_owned()),
            }
        }
        if !answers.is_empty()
            && write.write_all(format!("{}\r\n", answers.join(";")).as_bytes()).await.is_err()
        {
            return;
        }
    }
}
