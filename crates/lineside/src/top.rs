//! `lineside top`: shows the rates of a running server in the terminal and updates them.
//!
//! A thread reads the status from the console once per interval and sends it to the main thread, which draws it and
//! handles keys. So a console that does not answer never delays a key.

mod rates;
mod view;

use crate::status::ConsoleAddress;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_console::{Snapshot, fetch_status};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rates::History;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use view::View;

/// Time that the main thread waits for a key before it looks for a new status.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Show the rates of a running server in the terminal, and update them.
///
/// Keys: up and down choose a service, p pauses, q quits.
#[derive(Args)]
pub struct Top {
    #[command(flatten)]
    of: ConsoleAddress,
    /// Seconds between two updates, 1 to 3600.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// Status that was read from the console at a moment, or the reason why it could not be read.
struct Reading {
    at: Instant,
    status: Result<Snapshot, String>,
}

/// Shows the rates until the user quits.
///
/// # Errors
/// Standard input or output is not a terminal, or the terminal cannot be used.
pub fn run(arguments: &Top, as_json: bool) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("`top` needs a terminal: use `lineside status` to print the state once");
    }
    if as_json {
        bail!(Wrong(
            "`top` draws on a terminal and has no JSON: use `lineside status --json`".into()
        ));
    }
    let (sender, readings) = sync_channel(1);
    let (console, interval) = (arguments.of.console, Duration::from_secs(arguments.interval));
    // The thread ends when it finds that the receiver is gone, or with the process.
    thread::Builder::new()
        .name("lineside-top".into())
        .spawn(move || read(console, interval, &sender))?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &readings, View::new(console));
    ratatui::restore();
    Ok(ended?)
}

/// Reads the status once per interval until the receiver is gone.
fn read(console: SocketAddr, interval: Duration, sender: &SyncSender<Reading>) {
    loop {
        let at = Instant::now();
        let status = fetch_status(console).map_err(|error| error.to_string());
        if sender.send(Reading { at, status }).is_err() {
            return;
        }
        thread::sleep(interval.saturating_sub(at.elapsed()));
    }
}

fn show(terminal: &mut DefaultTerminal, readings: &Receiver<Reading>, mut view: View) -> io::Result<()> {
    let mut history = History::default();
    loop {
        for Reading { at, status } in readings.try_iter() {
            if view.is_paused() {
                continue;
            }
            match status {
                Ok(snapshot) => {
                    history.add(at, snapshot);
                    view.answered();
                }
                Err(why) => view.failed(why),
            }
        }
        terminal.draw(|frame| view.draw(frame, &history))?;
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && quits(&mut view, key, history.services().len())
        {
            return Ok(());
        }
    }
}

/// Handles a key. Returns true if the user quits.
fn quits(view: &mut View, key: KeyEvent, services: usize) -> bool {
    if key.kind != KeyEventKind::Press {
        return false;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('p') => view.pause(),
        KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => view.choose(1, services),
        KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => view.choose(-1, services),
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_quit_pause_and_choose_a_service() {
        let mut view = View::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        assert!(!quits(&mut view, key(KeyCode::Char('x')), 2));
        assert!(!quits(&mut view, key(KeyCode::Char('c')), 2));
        assert!(quits(&mut view, key(KeyCode::Char('q')), 2));
        assert!(quits(&mut view, key(KeyCode::Esc), 2));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(quits(&mut view, interrupt, 2));
        quits(&mut view, key(KeyCode::Char('p')), 2);
        assert!(view.is_paused());
        for expected in [1, 0, 1] {
            quits(&mut view, key(KeyCode::Down), 2);
            assert_eq!(view.chosen(), expected);
        }
        quits(&mut view, key(KeyCode::Up), 2);
        assert_eq!(view.chosen(), 0);
    }
}
