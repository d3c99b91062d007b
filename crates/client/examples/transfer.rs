//! Makes two accounts and payments between them, at a server of `transfer`.
//!
//!     lineside transfer serve --data ledger
//!     cargo run -p lineside-client --example transfer -- 127.0.0.1:7702

use lineside_client::ClientError;
use lineside_client::transfer::{
    AccountId, Client, Executed, Operation, Session, create, keyed, linked, new_idempotency_key, transfer,
};
use std::error::Error;
use std::time::Duration;

/// Executes a packet, and sends it again once if its outcome is unknown.
fn execute(
    client: &mut Client,
    session: &mut Session,
    packet: &[Operation],
) -> Result<Executed, ClientError> {
    match client.execute(session, packet) {
        Err(ClientError::OutcomeUnknown { id, cause, .. }) => {
            eprintln!("{id}: {cause}; sending it again");
            // The session has not advanced, so the same operations are the same packet, which is executed once.
            client.execute(session, packet)
        }
        executed => executed,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).ok_or("give ADDR:PORT of a server")?;
    let mut client = Client::connect(server.parse()?, Duration::from_secs(3))?;
    let mut session = client.open()?;
    // Random account ids, so that the example can run more than once.
    let [alice, bob] = [
        AccountId(new_idempotency_key()?),
        AccountId(new_idempotency_key()?),
    ];
    execute(
        &mut client,
        &mut session,
        &[create(alice, 100, None), create(bob, 0, None)],
    )?;

    let payment = keyed(transfer(alice, bob, 30), new_idempotency_key()?);
    let first = execute(&mut client, &mut session, &[payment])?;
    let again = execute(&mut client, &mut session, &[payment])?;
    println!("one payment, sent twice: {:?}", first.outcomes == again.outcomes);

    let too_much = linked([transfer(bob, alice, 1), transfer(alice, bob, 1000)]);
    for outcome in execute(&mut client, &mut session, &too_much)?.outcomes {
        println!("linked: {}", outcome.code.name());
    }
    for (name, state) in ["alice", "bob"].iter().zip(client.refer(&[alice, bob])?) {
        println!("{name}: {}", state.ok_or("no such account")?.balance);
    }
    client.close(&session)?;
    Ok(())
}
