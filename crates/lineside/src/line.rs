//! Near at the line, whatever the service: the XDP plane loaded, attached, and the word on why not.

use crate::config::{Plane, PlaneName};
use anyhow::bail;
use lineside_plane::xdp::{
    AttachedMode, Image, Interface, Pins, XdpError, XdpPlane, harmful_offloads, native_needs,
};
use std::net::SocketAddr;

/// Loads the programs for a service at `listen`, as the configuration wants it; `None`: near stays in user space, and
/// `warnings` say why where that was not asked for.
///
/// # Errors
/// Why XDP, where it was asked for, cannot be had.
pub fn load(
    plane: &Plane,
    listen: SocketAddr,
    image: impl FnOnce() -> Result<Image, XdpError>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<(XdpPlane, Interface)>> {
    match plane.plane {
        PlaneName::Socket => Ok(None),
        PlaneName::Xdp => load_xdp(plane, listen, image, warnings).map(Some),
        PlaneName::Auto => match load_xdp(plane, listen, image, warnings) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(error) => {
                warnings.push(format!("on the socket plane: {}", crate::words(&error)));
                Ok(None)
            }
        },
    }
}

fn load_xdp(
    plane: &Plane,
    listen: SocketAddr,
    image: impl FnOnce() -> Result<Image, XdpError>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<(XdpPlane, Interface)> {
    if listen.port() == 0 {
        bail!("XDP needs a port to be given, not 0");
    }
    let mut interface = Interface::find(&plane.interface)?;
    if !listen.ip().is_unspecified() && !interface.endpoint.keep_only(listen.ip()) {
        bail!(
            "{} is not an address of {}: give the interface that has it",
            listen.ip(),
            plane.interface
        );
    }
    let pins = match Pins::own(&plane.pin_dir, &plane.interface) {
        Ok(pins) => Some(pins),
        Err(error @ XdpError::NoBpffs(_)) => {
            warnings.push(format!("near ends with this process: {error}"));
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok((XdpPlane::load(vec![image()?], pins)?, interface))
}

/// Attaches; on the plane `auto` a refusal is told, and near stays in user space.
///
/// # Errors
/// Why it cannot be attached, where that was asked for.
pub fn attach(
    config: &Plane,
    mut plane: XdpPlane,
    interface: &Interface,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<(XdpPlane, AttachedMode)>> {
    match plane.attach(interface, config.xdp_mode.into()) {
        Ok(mode) => {
            warnings.extend(harmful_offloads(&interface.name));
            if mode == AttachedMode::Native {
                warnings.extend(native_needs(&interface.name));
            }
            Ok(Some((plane, mode)))
        }
        Err(error) => {
            plane.detach()?;
            if config.plane == PlaneName::Xdp {
                return Err(error.into());
            }
            warnings.push(format!("on the socket plane: {error}"));
            Ok(None)
        }
    }
}
