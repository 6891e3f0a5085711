//! A library with the names of `libnvidia-ml.so.1` and no GPU behind it.
//!
//! What it says stands in the file beside it, named as the library with `.spec` at the end, one setting a line:
//! `gpus 8`, `switches 4` (else cards are bridged in pairs), `mig INDEX SLICES`, `xid INDEX NUMBER`, `fail SYMBOL CODE [INDEX]`
//! and `hang SYMBOL [INDEX]`, where the symbol may be `*`. It is read when the library is initialised.
#![allow(non_snake_case, non_camel_case_types, clippy::missing_safety_doc)]

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void},
    fs,
    sync::RwLock,
    time::Duration,
};

type Code = c_uint;
const OK: Code = 0;
const UNINITIALISED: Code = 1;
const INVALID: Code = 2;
const NOT_SUPPORTED: Code = 3;
const NOT_FOUND: Code = 6;
const TOO_SMALL: Code = 7;
const NO_DRIVER: Code = 9;
const TIMEOUT: Code = 10;

/// A card's number and one; a slice is `1_000 + 10 x card + slice`.
type Handle = *mut c_void;

#[derive(Default)]
struct Node {
    gpus: u32,
    switches: u32,
    mig: Vec<(u32, u32)>,
    xid: Vec<(u32, u32)>,
    fail: Vec<(String, Code, Option<u32>)>,
    hang: Vec<(String, Option<u32>)>,
}

static NODE: RwLock<Option<Node>> = RwLock::new(None);

/// Cards of the event sets, and how many errors each has given out; a set's handle is its place and one.
static SETS: RwLock<Vec<(u32, usize)>> = RwLock::new(Vec::new());

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

fn load() -> Result<(), Code> {
    let mut info = DlInfo {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: the address is of a function of this library, and `info` lives through the call
    let path = unsafe {
        if dladdr(load as *const c_void, &raw mut info) == 0 {
            return Err(NO_DRIVER);
        }
        CStr::from_ptr(info.file).to_string_lossy().into_owned()
    };
    let text = fs::read_to_string(path + ".spec").map_err(|_| NO_DRIVER)?;
    let mut node = Node::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<u32>().ok());
        let word = |i: usize| words.get(i).copied().unwrap_or_default().to_owned();
        match words.first() {
            Some(&"gpus") => node.gpus = number(1).unwrap_or(0),
            Some(&"switches") => node.switches = number(1).unwrap_or(0),
            Some(&"mig") => node.mig.push((number(1).unwrap_or(0), number(2).unwrap_or(0))),
            Some(&"xid") => node.xid.push((number(1).unwrap_or(0), number(2).unwrap_or(0))),
            Some(&"fail") => node.fail.push((word(1), number(2).unwrap_or(999), number(3))),
            Some(&"hang") => node.hang.push((word(1), number(2))),
            _ => {}
        }
    }
    *NODE.write().unwrap_or_else(|e| e.into_inner()) = Some(node);
    Ok(())
}

/// Waits for ever, fails, or goes on, as the file says of this call.
fn gate(symbol: &str, card: Option<u32>) -> Result<(), Code> {
    let (hangs, fails) = {
        let node = NODE.read().unwrap_or_else(|e| e.into_inner());
        let Some(node) = node.as_ref() else { return Err(UNINITIALISED) };
        let of = |named: &str, at: Option<u32>| {
            (named == symbol || (named == "*" && at.is_some())) && (at.is_none() || at == card)
        };
        let hangs = node.hang.iter().any(|(named, at)| of(named, *at));
        (hangs, node.fail.iter().find(|(named, _, at)| of(named, *at)).map(|(_, code, _)| *code))
    };
    if hangs {
        loop {
            std::thread::sleep(Duration::from_secs(3_600));
        }
    }
    fails.map_or(Ok(()), Err)
}

fn node<T>(read: impl FnOnce(&Node) -> T) -> Result<T, Code> {
    NODE.read().unwrap_or_else(|e| e.into_inner()).as_ref().map(read).ok_or(UNINITIALISED)
}

fn card(handle: Handle) -> u32 {
    let n = handle as usize as u32;
    if n >= 1_000 { (n - 1_000) / 10 } else { n.wrapping_sub(1) }
}

fn slice(handle: Handle) -> Option<u32> {
    let n = handle as usize as u32;
    (n >= 1_000).then(|| (n - 1_000) % 10)
}

unsafe fn text(value: &str, to: *mut c_char, length: c_uint) -> Result<(), Code> {
    if value.len() + 1 > length as usize {
        return Err(TOO_SMALL);
    }
    unsafe {
        std::ptr::copy_nonoverlapping(value.as_ptr().cast(), to, value.len());
        *to.add(value.len()) = 0;
    }
    Ok(())
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    id: c_uint,
    subsystem: c_uint,
    bus_id: [c_char; 32],
}

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
pub struct Utilisation {
    gpu: c_uint,
    memory: c_uint,
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[repr(C)]
pub struct Event {
    device: Handle,
    kind: c_ulonglong,
    data: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

fn card_of(set: Handle) -> Option<u32> {
    let sets = SETS.read().unwrap_or_else(|e| e.into_inner());
    sets.get((set as usize).wrapping_sub(1)).map(|(card, _)| *card)
}

/// Bus numbers of cards; switches stand from 5 on.
const BUSES: [u32; 8] = [0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf];

fn bus(card: u32) -> u32 {
    BUSES.get(card as usize).copied().unwrap_or(0xe0 + card)
}

unsafe fn pci(bus: u32, id: u32, to: *mut Pci) -> Result<(), Code> {
    unsafe {
        to.write_bytes(0, 1);
        ((*to).bus, (*to).id) = (bus, id);
        text(&format!("{bus:04x}:00.0"), (*to).legacy.as_mut_ptr(), 16)?;
        text(&format!("00000000:{bus:02X}:00.0"), (*to).bus_id.as_mut_ptr(), 32)
    }
}

macro_rules! api {
    ($($name:ident($($argument:ident: $type:ty),*) $at:expr, $body:block)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            let call = || -> Result<(), Code> {
                gate(stringify!($name), $at)?;
                #[allow(unused_unsafe)] // one of the calls has nothing to write
                unsafe { $body }
            };
            call().err().unwrap_or(OK)
        }
    )* };
}

/// # Safety
/// As the driver's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlInit_v2() -> Code {
    load().and_then(|()| gate("nvmlInit_v2", None)).err().unwrap_or(OK)
}

/// # Safety
/// As the driver's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    (match code {
        OK => c"Success",
        15 => c"GPU is lost",
        _ => c"an error of the stand-in",
    })
    .as_ptr()
}

api! {
    nvmlShutdown() None, { Ok(()) }
    nvmlSystemGetDriverVersion(to: *mut c_char, length: c_uint) None, { text("570.124.06", to, length) }
    nvmlSystemGetCudaDriverVersion_v2(to: *mut c_int) None, { *to = 12_080; Ok(()) }
    nvmlDeviceGetCount_v2(to: *mut c_uint) None, { *to = node(|n| n.gpus)?; Ok(()) }
    nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Handle) Some(index), {
        if index >= node(|n| n.gpus)? { return Err(INVALID) }
        *to = (index as usize + 1) as Handle;
        Ok(())
    }
    nvmlDeviceGetName(device: Handle, to: *mut c_char, length: c_uint) Some(card(device)), {
        match slice(device) {
            None => text("NVIDIA H100 80GB HBM3", to, length),
            Some(_) => text("NVIDIA H100 80GB HBM3 MIG 3g.40gb", to, length),
        }
    }
    nvmlDeviceGetUUID(device: Handle, to: *mut c_char, length: c_uint) Some(card(device)), {
        match slice(device) {
            // as some hypervisors do, every card has the same
            None => text("GPU-00000000-0000-0000-0000-000000000000", to, length),
            Some(n) => text(&format!("MIG-{:08x}-0000-4000-8000-{n:012x}", card(device)), to, length),
        }
    }
    nvmlDeviceGetPciInfo_v3(device: Handle, to: *mut Pci) Some(card(device)), { pci(bus(card(device)), 0x2330_10de, to) }
    nvmlDeviceGetMemoryInfo_v2(device: Handle, to: *mut Memory) Some(card(device)), {
        let total = if slice(device).is_some() { 40_448 << 20 } else { 81_559 << 20 };
        ((*to).total, (*to).reserved, (*to).used) = (total, 0, u64::from(card(device)) << 30);
        (*to).free = total - (*to).used;
        Ok(())
    }
    nvmlDeviceGetUtilizationRates(device: Handle, to: *mut Utilisation) Some(card(device)), {
        if node(|n| n.mig.iter().any(|(at, _)| *at == card(device)))? { return Err(NOT_SUPPORTED) }
        to.write(Utilisation { gpu: 10 * card(device), memory: 1 });
        Ok(())
    }
    nvmlDeviceGetPowerUsage(device: Handle, to: *mut c_uint) Some(card(device)), { *to = 70_000 + card(device); Ok(()) }
    nvmlDeviceGetEnforcedPowerLimit(device: Handle, to: *mut c_uint) Some(card(device)), { *to = 700_000; Ok(()) }
    nvmlDeviceGetTemperature(device: Handle, _sensor: c_uint, to: *mut c_uint) Some(card(device)), { *to = 30 + card(device); Ok(()) }
    nvmlDeviceGetNumaNodeId(device: Handle, to: *mut c_uint) Some(card(device)), { *to = card(device) / 4; Ok(()) }
    nvmlDeviceGetTotalEccErrors(device: Handle, _kind: c_uint, _counter: c_uint, to: *mut c_ulonglong) Some(card(device)), { *to = 0; Ok(()) }
    nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, to: *mut c_uint) Some(card(device)), { *to = 5; Ok(()) }
    nvmlDeviceGetCurrPcieLinkWidth(device: Handle, to: *mut c_uint) Some(card(device)), { *to = 16; Ok(()) }
    nvmlDeviceGetComputeRunningProcesses_v3(device: Handle, count: *mut c_uint, to: *mut Process) Some(card(device)), {
        if card(device) != 0 { *count = 0; return Ok(()) }
        if *count < 1 || to.is_null() { *count = 1; return Err(TOO_SMALL) }
        *count = 1;
        to.write(Process { pid: 4_242, used: 1 << 30, gpu_instance: u32::MAX, compute_instance: u32::MAX });
        Ok(())
    }
    nvmlDeviceGetMigMode(device: Handle, now: *mut c_uint, pending: *mut c_uint) Some(card(device)), {
        *now = u32::from(node(|n| n.mig.iter().any(|(at, _)| *at == card(device)))?);
        *pending = *now;
        Ok(())
    }
    nvmlDeviceGetMaxMigDeviceCount(device: Handle, to: *mut c_uint) Some(card(device)), { *to = 7; Ok(()) }
    nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: c_uint, to: *mut Handle) Some(card(device)), {
        let slices = node(|n| n.mig.iter().find(|(at, _)| *at == card(device)).map_or(0, |(_, n)| *n))?;
        if index >= slices { return Err(NOT_FOUND) }
        *to = (1_000 + 10 * card(device) + index) as usize as Handle;
        Ok(())
    }
    nvmlDeviceGetGpuInstanceId(device: Handle, to: *mut c_uint) Some(card(device)), {
        *to = 1 + slice(device).ok_or(INVALID)?;
        Ok(())
    }
    nvmlDeviceGetComputeInstanceId(device: Handle, to: *mut c_uint) Some(card(device)), {
        slice(device).ok_or(INVALID)?;
        *to = 0;
        Ok(())
    }
    nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, to: *mut c_uint) Some(card(device)), {
        if link >= 18 { return Err(INVALID) }
        *to = 1;
        Ok(())
    }
    nvmlDeviceGetNvLinkRemotePciInfo_v2(device: Handle, link: c_uint, to: *mut Pci) Some(card(device)), {
        match node(|n| n.switches)? {
            0 => pci(bus(card(device) ^ 1), 0x2330_10de, to),
            switches => pci(5 + link % switches, 0x22a3_10de, to),
        }
    }
    nvmlDeviceGetTopologyCommonAncestor(a: Handle, b: Handle, to: *mut c_uint) Some(card(a)), {
        *to = if card(a) / 4 == card(b) / 4 { 40 } else { 50 };
        Ok(())
    }
    nvmlEventSetCreate(to: *mut Handle) None, {
        let mut sets = SETS.write().unwrap_or_else(|e| e.into_inner());
        sets.push((0, 0));
        *to = sets.len() as Handle;
        Ok(())
    }
    nvmlDeviceRegisterEvents(device: Handle, _kinds: c_ulonglong, set: Handle) Some(card(device)), {
        let mut sets = SETS.write().unwrap_or_else(|e| e.into_inner());
        sets.get_mut((set as usize).wrapping_sub(1)).ok_or(INVALID)?.0 = card(device);
        Ok(())
    }
    nvmlEventSetWait_v2(set: Handle, to: *mut Event, _milliseconds: c_uint) card_of(set), {
        let mut sets = SETS.write().unwrap_or_else(|e| e.into_inner());
        let (card, given) = sets.get_mut((set as usize).wrapping_sub(1)).ok_or(INVALID)?;
        let next = node(|n| n.xid.iter().filter(|(at, _)| at == card).nth(*given).map(|(_, number)| *number))?;
        let Some(number) = next else { return Err(TIMEOUT) };
        *given += 1;
        to.write(Event {
            device: (*card as usize + 1) as Handle,
            kind: 8,
            data: u64::from(number),
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        });
        Ok(())
    }
    nvmlEventSetFree(_set: Handle) None, { Ok(()) }
}
