//! Which GPU instance and compute instance a MIG device is.
//!
//! Source: NVML API reference, `nvmlDeviceGetGpuInstanceId` and `nvmlDeviceGetComputeInstanceId`.

use nvml_wrapper::{
    Device, Nvml,
    error::{NvmlError, nvml_sym, nvml_try},
};

/// Of a MIG device, not of the card that it is part of.
pub fn gpu_instance(nvml: &Nvml, slice: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: the symbol has this signature in every NVML that has it; the handle is one that the same open library gave;
    // the place for the answer lives until the call has come back.
    nvml_try(unsafe { call(slice.handle(), &raw mut id) })?;
    Ok(id)
}

/// Within its GPU instance.
pub fn compute_instance(nvml: &Nvml, slice: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetComputeInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: as above.
    nvml_try(unsafe { call(slice.handle(), &raw mut id) })?;
    Ok(id)
}
