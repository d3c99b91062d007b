//! Writes and reads cells of a table, at a server of `column`.
//!
//!     lineside column serve
//!     cargo run -p lineside-client --example column -- 127.0.0.1:7703

use lineside_client::ClientError;
use lineside_client::column::{Change, Client, ColumnName, Outcome, Rows};
use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

/// Makes a change, and resumes it while its outcome is unknown.
fn change(
    client: &mut Client,
    key: &[u8],
    column: &ColumnName,
    change: &Change,
) -> Result<Outcome, ClientError> {
    let mut outcome = client.change(key, column, change);
    while let Err(ClientError::OutcomeUnknown { id, .. }) = &outcome {
        eprintln!("{id}: resuming it");
        outcome = client.resume(&id.clone());
    }
    outcome
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("give ADDR:PORT of a server")?;
    let column = ColumnName::new(b"entry:foo").ok_or("a column is family:qualifier")?;
    let mut client = Client::connect(server.parse()?, Duration::from_secs(3))?;
    for number in 0..100 {
        let key = format!("example/{number:03}");
        let value = Change::Put(number.to_string().into_bytes(), None);
        change(&mut client, key.as_bytes(), &column, &value)?;
    }
    println!(
        "{:?}",
        change(&mut client, b"visits", &column, &Change::Increment(1))?
    );
    println!("{:?}", client.get(b"example/042", &[column])?.rows);
    let rows = Rows {
        start: b"example/".to_vec(),
        stop: b"example0".to_vec(),
        ..Rows::default()
    };
    let (mut packets, mut count) = (0, 0);
    client.scan_all(&rows, &[column], |answer| {
        packets += 1;
        count += answer.count();
        ControlFlow::Continue(())
    })?;
    println!("{count} rows in {packets} packets");
    Ok(())
}
