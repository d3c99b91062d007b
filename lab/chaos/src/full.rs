//! Attack with a disk that becomes full while clients change data. The service must refuse changes with an error and
//! still answer reads. After kill -9 and a start with free space, all acknowledged changes must be present.

use crate::client::{Ask, Client, StreamClient};
use crate::packet::{self, Session, status};
use crate::service::{Name, Service};
use crate::{Report, Scene, disk};
use anyhow::{Context, bail, ensure};
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Size of the disk in bytes.
const DISK_BYTES: u64 = 256 << 20;
/// Time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of changes before the disk is filled, in which the service allocates its files.
const BEFORE_FULL: u64 = 20;
/// Maximum number of changes. A service that accepts all of them on the full disk is wrong.
const CHANGES_MAX: u64 = 200_000;
/// Account that receives the payments.
const PAID: u128 = 2;
const OPERATIONS: u64 = 200;
/// Size of a value in bytes.
const VALUE_BYTES: usize = 1000;

/// Runs the case for the service `transfer`.
pub fn transfer(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    on_small_disk(
        scene,
        report,
        Name::Transfer,
        "account_bits = 14\n",
        transfer_on_disk,
    )
}

/// Runs the case for the service `column`.
pub fn column(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    on_small_disk(scene, report, Name::Column, "", column_on_disk)
}

/// Runs `attack` on a thread for which the small disk is mounted.
fn on_small_disk(
    scene: &Scene,
    report: &mut Report,
    name: Name,
    keys: &'static str,
    attack: fn(&mut Service, &PathBuf, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut service = Service::new(scene, name, (Ipv4Addr::LOCALHOST, 0).into(), keys)?;
            let folder = service.folder.path().join("disk");
            fs::create_dir(&folder)?;
            if let Err(error) = disk::mount(&folder, DISK_BYTES) {
                report.skipped = Some(format!("mounting a disk is not permitted ({error})"));
                return Ok(());
            }
            service.place_data(&folder.join("data"));
            attack(&mut service, &folder.join("filler"), report)
        });
        run.join().map_err(|_| anyhow::anyhow!("the case panicked"))?
    })
}

fn transfer_on_disk(service: &mut Service, filler: &PathBuf, report: &mut Report) -> anyhow::Result<()> {
    let mut server = service.start(None)?;
    let mut honest = service.honest(&server)?;
    let mut way = StreamClient::new(server.listen, 1);
    let mut session = way
        .open_transfer(REQUEST_TIMEOUT)
        .context("the service granted no session")?;
    let create = packet::operation(packet::transfer::CREATE, 0, PAID, 0, 0, 2);
    let mut next = packet::execute(&session, &[create]);
    let mut paid = 0;
    for number in 0.. {
        ensure!(
            number < CHANGES_MAX,
            "the service refused no change although the disk was full"
        );
        let answer = way
            .ask(packet::transfer::EXECUTE, &next, REQUEST_TIMEOUT)
            .with_context(|| format!("the service did not answer a packet within {REQUEST_TIMEOUT:?}"))?;
        match answer.status {
            status::OK if number == 0 => {}
            status::OK => {
                let done = packet::outcomes(&answer.body)
                    .filter(|(code, ..)| *code == 0)
                    .count();
                ensure!(
                    done as u64 == OPERATIONS,
                    "{done} operations were executed instead of {OPERATIONS}"
                );
                paid += OPERATIONS;
            }
            status::NO_ROOM => break,
            other => bail!("unexpected status {other} with a full disk"),
        }
        if number == BEFORE_FULL {
            disk::fill(filler)?;
        }
        session.next += 1;
        let pay = |at| {
            let uuid = u128::from(number * OPERATIONS + at) + 10;
            packet::operation(packet::transfer::TRANSFER, 0, 1, PAID, 1, uuid)
        };
        let operations: Vec<_> = (0..OPERATIONS).map(pay).collect();
        next = packet::execute(&session, &operations);
    }
    report.count("acknowledged", paid);
    let refer = packet::refer(PAID);
    let held = |client: &mut Client| {
        let answer = client.ask(packet::transfer::REFER, &refer, REQUEST_TIMEOUT);
        answer
            .and_then(|answer| packet::balance(&answer.body))
            .context("there is no reply to REFER, or it has no balance")
    };
    ensure!(
        held(&mut honest.client)? >= paid,
        "balances cannot be read while the disk is full"
    );
    must_be_unhealthy(&server)?;
    server.kill();
    fs::remove_file(filler)?;
    let mut server = service.start(None)?;
    let now = held(&mut honest.client)?;
    // The refused packet may have reached the journal before the disk was full; then all of its operations count.
    if now < paid {
        report.lose(format!(
            "payments of {paid} were acknowledged, but the balance after the restart is {now}"
        ));
    } else if now != paid && now != paid + OPERATIONS {
        report.fault(format!(
            "payments of {paid} were acknowledged, but the balance after the restart is {now}"
        ));
    }
    // The client sends the same packet again: with free space, the service executes it now or has executed it before.
    let answer = way
        .ask(packet::transfer::EXECUTE, &next, REQUEST_TIMEOUT)
        .with_context(|| {
            format!(
                "the packet that was refused while the disk was full was sent again, and the service did not answer \
                 within {REQUEST_TIMEOUT:?}"
            )
        })?;
    ensure!(
        answer.status == status::OK,
        "unexpected status {} after space was freed",
        answer.status
    );
    ensure!(
        held(&mut honest.client)? == paid + OPERATIONS,
        "the refused packet was not executed exactly once"
    );
    server.kill();
    Ok(())
}

fn column_on_disk(service: &mut Service, filler: &PathBuf, report: &mut Report) -> anyhow::Result<()> {
    let mut server = service.start(None)?;
    let mut honest = service.honest(&server)?;
    let row = |number: u64| format!("row{number}").into_bytes();
    let value = |number: u64| vec![number as u8; VALUE_BYTES];
    let mut acknowledged = 0;
    loop {
        ensure!(
            acknowledged < CHANGES_MAX,
            "the service refused no change although the disk was full"
        );
        let body = packet::column_body(Session::default(), &row(acknowledged), &value(acknowledged), 0);
        let answer = honest
            .client
            .ask(packet::column::PUT, &body, REQUEST_TIMEOUT)
            .with_context(|| format!("the service did not answer a put within {REQUEST_TIMEOUT:?}"))?;
        match answer.status {
            status::OK => acknowledged += 1,
            status::NO_ROOM | status::OUTCOME_UNKNOWN => break,
            other => bail!("unexpected status {other} with a full disk"),
        }
        if acknowledged == BEFORE_FULL {
            disk::fill(filler)?;
        }
    }
    report.count("acknowledged", acknowledged);
    honest
        .check(REQUEST_TIMEOUT)
        .context("a read failed while the disk was full")?;
    must_be_unhealthy(&server)?;
    server.kill();
    fs::remove_file(filler)?;
    let mut server = service.start(None)?;
    for number in 0..acknowledged {
        let body = packet::column_body(Session::default(), &row(number), &[], VALUE_BYTES + 100);
        let answer = honest
            .client
            .ask(packet::column::GET, &body, REQUEST_TIMEOUT)
            .with_context(|| format!("the service did not answer a get within {REQUEST_TIMEOUT:?}"))?;
        if packet::value(&answer.body) != Some(&value(number)) {
            report.lose(format!(
                "row {number} was acknowledged, but the reply does not have its value: {answer:?}"
            ));
        }
    }
    let body = packet::column_body(Session::default(), b"later", b"value", 0);
    let answer = honest
        .client
        .ask(packet::column::PUT, &body, REQUEST_TIMEOUT)
        .with_context(|| {
            format!("the service did not answer a put within {REQUEST_TIMEOUT:?} after space was freed")
        })?;
    ensure!(
        answer.status == status::OK,
        "unexpected status {} after space was freed",
        answer.status
    );
    server.kill();
    Ok(())
}

fn must_be_unhealthy(server: &crate::server::Server) -> anyhow::Result<()> {
    let (code, health) = server.page("/healthz")?;
    ensure!(
        code == 503,
        "/healthz returned {code} although the service refuses all changes: {health}"
    );
    Ok(())
}
