//! Names of everything that is measured, and what of it is counted where. Prometheus conventions: seconds, `_total`.

pub const ORDERS_ACKNOWLEDGED: &str = "rhumb_orders_acknowledged_total";
pub const ORDERS_PLACED: &str = "rhumb_orders_placed_total";
/// Orders that came to an end, by `state`.
pub const ORDERS_ENDED: &str = "rhumb_orders_ended_total";
/// Orders that have not come to an end, by `state`.
pub const ORDERS_LIVE: &str = "rhumb_orders_live";
/// Generations that were given up and placed again.
pub const REPLACEMENTS: &str = "rhumb_replacements_total";
/// Of one decision, without its explanation.
pub const DECISION_SECONDS: &str = "rhumb_decision_seconds";
/// Decisions that the store refused because others were quicker.
pub const PLACEMENT_CONFLICTS: &str = "rhumb_placement_conflicts_total";
/// Decisions and steps that ended in a panic or an impossible answer.
pub const FAULTS: &str = "rhumb_faults_total";
/// Of one round over all waiting orders.
pub const ROUND_SECONDS: &str = "rhumb_placement_round_seconds";
/// Reports taken in.
pub const REPORTS: &str = "rhumb_reports_total";
/// Agents that asked to join without a good token.
pub const JOINS_REFUSED: &str = "rhumb_joins_refused_total";
/// Reports that were not newer than what is known.
pub const REPORTS_IGNORED: &str = "rhumb_reports_ignored_total";
/// Link figures that cannot be true.
pub const FIGURES_REFUSED: &str = "rhumb_link_figures_refused_total";
/// Links whose path was another than in the windows before.
pub const PATH_CHANGES: &str = "rhumb_link_path_changes_total";
/// Log chunks of orders that the reporting site has nothing of.
pub const LOGS_REFUSED: &str = "rhumb_log_chunks_refused_total";
/// Points that are silent for too long.
pub const POINTS_LOST: &str = "rhumb_points_lost";

/// Of devices, as NVIDIA's exporter (DCGM) calls them.
pub const DCGM_UTILISATION: &str = "DCGM_FI_DEV_GPU_UTIL";
pub const DCGM_FB_USED: &str = "DCGM_FI_DEV_FB_USED";
pub const DCGM_FB_FREE: &str = "DCGM_FI_DEV_FB_FREE";
pub const DCGM_TEMPERATURE: &str = "DCGM_FI_DEV_GPU_TEMP";
pub const DCGM_POWER: &str = "DCGM_FI_DEV_POWER_USAGE";
pub const DCGM_ECC: &str = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL";
pub const DCGM_XID: &str = "DCGM_FI_DEV_XID_ERRORS";
pub const DEVICE_PROCESSES: &str = "rhumb_device_processes";
/// Devices, by site, model and health.
pub const DEVICES: &str = "rhumb_devices";
