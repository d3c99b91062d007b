//! Opens, sizes and loads the BPF objects: the root program once for each interface, and each service once. All of them
//! share one set of maps; only the endpoint map, which has the addresses of an interface, exists once for each root
//! program.

use super::error::{XdpError, kernel};
use super::{ENDPOINT_MAP, Pins, ProgramSpec, ROOT, Service, link};
use libbpf_rs::{MapCore, MapMut, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramMut};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

/// Maps that the root program and the services share, from `xdp/maps.h`.
const SHARED_MAPS: [&str; 2] = ["ls_scratches", "ls_drop_counts"];

/// Loads a root program for each of `interfaces` interfaces, and the services. `pins` has the pins of the interfaces in
/// the same order, or is empty.
pub(super) fn load_all(
    images: &[ProgramSpec],
    interfaces: usize,
    pins: &[Pins],
) -> Result<(Vec<Object>, Vec<Service>), XdpError> {
    let mut slots: Vec<_> = images.iter().map(|image| image.slot).collect();
    slots.sort_unstable();
    assert!(
        slots.windows(2).all(|two| two[0] != two[1]),
        "two programs have the same slot"
    );
    let mut roots = vec![load_first_root(pins)?];
    for index in 1..interfaces {
        let root = load_next_root(&mut roots[0], pins.get(index))?;
        roots.push(root);
    }
    let mut services = Vec::new();
    for image in images {
        let object = load_service(image, &mut roots[0], pins)?;
        services.push(Service {
            object,
            program: image.program,
            slot: image.slot,
            port: image.port,
        });
    }
    let objects = std::iter::once(&roots[0]).chain(services.iter().map(|service| &service.object));
    for object in objects {
        pin_everywhere(object, pins)?;
    }
    Ok((roots, services))
}

/// Loads the root program of the first interface, with the maps that all interfaces share.
fn load_first_root(pins: &[Pins]) -> Result<Object, XdpError> {
    let mut root = open(ROOT)?;
    pin_maps(&mut root, &[ENDPOINT_MAP], pins)?;
    pin_endpoint(&mut root, pins.first())?;
    root.load().map_err(kernel("cannot load the root program"))
}

/// Loads the root program of a further interface, which shares all maps of `first` except the endpoint.
fn load_next_root(first: &mut Object, pins: Option<&Pins>) -> Result<Object, XdpError> {
    let mut root = open(ROOT)?;
    share_maps(&mut root, first, &[ENDPOINT_MAP])?;
    pin_endpoint(&mut root, pins)?;
    root.load().map_err(kernel("cannot load the root program"))
}

fn pin_endpoint(root: &mut OpenObject, pins: Option<&Pins>) -> Result<(), XdpError> {
    let Some(pins) = pins else { return Ok(()) };
    pin_map(open_map(root, ENDPOINT_MAP)?, pins, &pins.map(ENDPOINT_MAP))
}

pub(super) fn open(object: &[u8]) -> Result<OpenObject, XdpError> {
    ObjectBuilder::default()
        .open_memory(object)
        .map_err(kernel("cannot read a BPF program"))
}

pub(super) fn open_service(image: &ProgramSpec) -> Result<OpenObject, XdpError> {
    let mut service = open(image.object)?;
    for (name, entries) in &image.entries {
        open_map(&mut service, name)?
            .set_max_entries(*entries)
            .map_err(kernel("cannot set the size of a map"))?;
    }
    for (name, bytes) in &image.value_bytes {
        open_map(&mut service, name)?
            .set_value_size(*bytes)
            .map_err(kernel("cannot set the value size of a map"))?;
    }
    for (name, value) in &image.constants {
        open_map(&mut service, name)?
            .set_initial_value(value)
            .map_err(kernel("cannot set the constants of a BPF program"))?;
    }
    Ok(service)
}

fn load_service(image: &ProgramSpec, root: &mut Object, pins: &[Pins]) -> Result<Object, XdpError> {
    let mut service = open_service(image)?;
    for name in SHARED_MAPS {
        open_map(&mut service, name)?
            .reuse_fd(map(root, name)?.as_fd())
            .map_err(kernel("cannot share a map between programs"))?;
    }
    pin_maps(&mut service, &SHARED_MAPS, pins)?;
    let bytes: u64 = service
        .maps()
        .map(|map| u64::from(map.value_size()) * u64::from(map.max_entries()))
        .sum();
    service.load().map_err(|source| match source.kind() {
        libbpf_rs::ErrorKind::OutOfMemory | libbpf_rs::ErrorKind::TooBig => {
            XdpError::MapTooLarge { bytes, source }
        }
        _ => kernel(format!("cannot load {}", image.program))(source),
    })
}

/// Prepares every map of `object`, except its constants and the maps in `except`: if the map is pinned already, the
/// object will use the pinned map, otherwise the map will be pinned when it is loaded.
fn pin_maps(object: &mut OpenObject, except: &[&str], pins: &[Pins]) -> Result<(), XdpError> {
    for map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // Each program has its own constants. Maps that are shared with the root program were pinned together with it.
        if name.contains('.') || except.contains(&name.as_str()) {
            continue;
        }
        if let Some(place) = pinned_at(&name, pins)?.or(pins.first()) {
            pin_map(map, place, &place.map(&name))?;
        }
    }
    Ok(())
}

/// Makes `map` use the map that is pinned at `path`, or be pinned there when it is loaded. `path` belongs to `pins`.
fn pin_map(mut map: OpenMapMut<'_>, pins: &Pins, path: &Path) -> Result<(), XdpError> {
    if path.exists() && !same_shape(&map, path)? {
        return Err(XdpError::OtherLayout {
            path: path.into(),
            interface: pins.interface().into(),
            pin_dir: pins.dir().into(),
        });
    }
    map.set_pin_path(path).map_err(kernel("cannot pin a map"))
}

/// Returns the pins of the first interface at which the map `name` is pinned, or `None` if it is pinned nowhere. Fails
/// if another interface has a different map of this name.
fn pinned_at<'a>(name: &str, pins: &'a [Pins]) -> Result<Option<&'a Pins>, XdpError> {
    let mut first: Option<(&Pins, u32)> = None;
    for one in pins {
        match (one.map_id(name)?, first) {
            (Some(id), None) => first = Some((one, id)),
            (Some(id), Some((other, same))) if id != same => {
                return Err(XdpError::Apart {
                    interfaces: [other.interface().to_owned(), one.interface().to_owned()],
                    pin_dir: one.dir().into(),
                });
            }
            _ => {}
        }
    }
    Ok(first.map(|(pins, _)| pins))
}

/// Pins the maps of a loaded object at every interface where they are not pinned yet.
fn pin_everywhere(object: &Object, pins: &[Pins]) -> Result<(), XdpError> {
    for map in object.maps() {
        let name = map.name().to_string_lossy();
        if name.contains('.') || name == ENDPOINT_MAP {
            continue;
        }
        for path in pins
            .iter()
            .map(|pins| pins.map(&name))
            .filter(|path| !path.exists())
        {
            link::pin(map.as_fd(), &path)?;
        }
    }
    Ok(())
}

/// Returns true if the pinned map has the type, key size, value size and number of entries of `map`.
fn same_shape(map: &OpenMapMut<'_>, path: &Path) -> Result<bool, XdpError> {
    let pinned = libbpf_rs::MapHandle::from_pinned_path(path).map_err(kernel("cannot open a pinned map"))?;
    Ok(pinned.map_type() == map.map_type()
        && pinned.key_size() == map.key_size()
        && pinned.value_size() == map.value_size()
        && pinned.max_entries() == map.max_entries())
}

/// Makes `next` use the maps of `old`, except the constants and the maps in `except`.
pub(super) fn share_maps(next: &mut OpenObject, old: &mut Object, except: &[&str]) -> Result<(), XdpError> {
    for mut wanted in next.maps_mut() {
        let name = wanted.name().to_string_lossy().into_owned();
        if !name.contains('.') && !except.contains(&name.as_str()) {
            wanted
                .reuse_fd(map(old, &name)?.as_fd())
                .map_err(kernel("cannot share a map between programs"))?;
        }
    }
    Ok(())
}

fn open_map<'a>(open: &'a mut OpenObject, name: &str) -> Result<OpenMapMut<'a>, XdpError> {
    open.maps_mut()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| XdpError::Map(name.into()))
}

pub(super) fn map<'a>(object: &'a mut Object, name: &str) -> Result<MapMut<'a>, XdpError> {
    object
        .maps_mut()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| XdpError::Map(name.into()))
}

pub(super) fn program<'a>(object: &'a mut Object, name: &str) -> Result<ProgramMut<'a>, XdpError> {
    let found = object
        .progs_mut()
        .find(|program| program.name() == OsStr::new(name));
    found.ok_or_else(|| XdpError::Map(name.into()))
}
