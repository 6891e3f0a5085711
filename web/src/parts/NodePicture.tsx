import type { ReactNode } from "react";

import type { Device, SiteNode, Slice } from "../api/types";
import { useI18n } from "../i18n";
import { href } from "../router";
import { hueOf, isSick, orderOf } from "./islands";
import { cuts, DEVICE, layout, type Layout, type Seat } from "./topology";

/** A node as a drawing: its devices below their PCIe switches and NUMA nodes, joined by NVLink, and what is left of the host. */
export function NodePicture({ node }: { node: SiteNode }): ReactNode {
  const { t, format } = useI18n();
  const devices = node.devices ?? [];
  const cpu = { free: format.number(node.cpu_milli_free / 1000, 1), total: format.number(node.cpu_milli_total / 1000, 1) };
  const memory = { free: format.memory(node.memory_bytes_free), total: format.memory(node.memory_bytes_total) };
  const where = [node.rack && `${t("sites.rack")} ${node.rack}`, node.nvl_domain && `NVL ${node.nvl_domain}`].filter(Boolean).join(" · ");
  const models = [...new Set(devices.map((device) => device.model))].join(", ");
  const ports = (node.ports ?? []).map((port) => `${port.name} ${port.rate_kbps ? format.rate(port.rate_kbps) : t("sites.noport")}`);
  const notes = devices.flatMap((device) => (device.notes ?? []).map((note) => `${device.index}: ${note}`));
  const open = devices.flatMap((device) => canBeCut(device) ?? []);
  return (
    <article className="node-card">
      <h3>
        {node.name} <small>{[models, where].filter(Boolean).join(" · ")}</small>
      </h3>
      {devices.length > 0 && <Drawing name={node.name} plan={layout(devices)} />}
      <Gauge name={t("sites.cpu")} free={node.cpu_milli_free} total={node.cpu_milli_total} text={t("sites.of", cpu)} />
      <Gauge name={t("sites.memory")} free={node.memory_bytes_free} total={node.memory_bytes_total} text={t("sites.of", memory)} />
      {ports.length > 0 && (
        <p className="node-note">
          {t("sites.ports")}: {ports.join(" · ")}
        </p>
      )}
      {open.map((text) => (
        <p className="node-note" key={text}>
          {t("sites.cut")} {text}
        </p>
      ))}
      {notes.length > 0 && (
        <ul className="node-note">
          {notes.slice(0, 8).map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </article>
  );
}

/** Of a device in slices; what could be made of one that is whole is no news. */
function canBeCut(device: Device): string | null {
  const open = Object.entries(device.can_be_cut ?? {});
  return device.mig === "on" && open.length > 0 ? `${device.index}: ${open.map(([profile, count]) => `${count} × ${profile}`).join(", ")}` : null;
}

function Drawing({ name, plan }: { name: string; plan: Layout }): ReactNode {
  const { t } = useI18n();
  return (
    <svg className="topology" viewBox={`0 0 ${plan.width} ${plan.height}`} style={{ maxWidth: plan.width * 1.35 }} role="group" aria-label={t("sites.topology", { name })} data-testid="topology">
      {plan.numas.map((numa) => (
        <g key={`numa-${numa.number}`}>
          <rect className="numa" x={numa.from - 9} y={2} width={numa.to - numa.from + 18} height={plan.top + DEVICE.height + 6} rx={4} />
          <text className="level" x={numa.from - 3} y={15}>
            NUMA {numa.number}
          </text>
        </g>
      ))}
      {plan.switches.map((found) => (
        <g key={`pcie-${found.number}`} className="pcie">
          <path d={`M${found.stubs[0]} 34H${found.stubs.at(-1)}${found.stubs.map((x) => `M${x} 34V${plan.top}`).join("")}`} />
          <text className="level" x={(found.from + found.to) / 2} y={30} textAnchor="middle">
            PCIe {found.number}
          </text>
        </g>
      ))}
      {plan.bars.map((bar) => (
        <g key={`island-${bar.number}`} className="nvlink">
          <path d={bar.stubs.map((x) => `M${x} ${plan.top + DEVICE.height}V${bar.y}`).join("")} />
          <rect x={bar.from} y={bar.y} width={bar.to - bar.from} height={5} rx={2} />
          <text className="level" x={(bar.from + bar.to) / 2} y={bar.y + 16} textAnchor="middle">
            {t("sites.island", { index: bar.number })}
          </text>
        </g>
      ))}
      {plan.seats.map((seat) => (
        <DeviceMark key={seat.device.index} seat={seat} top={plan.top} />
      ))}
    </svg>
  );
}

function DeviceMark({ seat: { device, x }, top }: { seat: Seat; top: number }): ReactNode {
  const { t, format } = useI18n();
  const sick = isSick(device);
  const part = device.share !== undefined && device.share > 0 && device.share < 1000 ? device.share / 1000 : null;
  const mig = device.mig === "on";
  const held = device.order && !mig ? `${t("sites.held")} ${device.order}${part === null ? "" : ` (${format.percent(part)}, ${t("sites.advisory")})`}` : null;
  const state = held ?? (sick ? `${t("sites.sick")} ${device.health ?? ""}` : mig ? t("sites.inslices") : t("sites.free"));
  const fares = [
    device.utilisation_pct != null && format.percent(device.utilisation_pct / 100),
    device.temperature_mc != null && `${format.number(device.temperature_mc / 1000)} °C`,
    device.power_mw != null && `${format.number(device.power_mw / 1000)} W`,
  ].filter(Boolean);
  const label = [t("sites.device", { index: device.index, model: device.model, memory: format.memory(device.memory_bytes), state }), ...fares, ...(device.notes ?? [])].join("; ");
  const hue = device.order ? `hue-${hueOf(device.order)}` : "";
  const used = device.utilisation_pct == null ? 0 : Math.min(100, device.utilisation_pct);
  const body = (
    <g className={`seat ${device.order && !mig ? `is-held ${hue}` : "is-free"} ${sick ? "is-sick" : ""}`} role="img" aria-label={label} transform={`translate(${x} ${top})`}>
      <title>{label}</title>
      <rect className="card" width={DEVICE.width} height={DEVICE.height} rx={3} />
      {mig && cuts(device).map((cut) => <Cut key={cut.from} cut={cut} />)}
      {!mig && part !== null && <rect className="part" width={DEVICE.width * part} height={DEVICE.height} rx={3} />}
      {sick && <path className="cross" d={`M6 6L${DEVICE.width - 6} ${DEVICE.height - 6}M${DEVICE.width - 6} 6L6 ${DEVICE.height - 6}`} />}
      <text className="number" x={DEVICE.width / 2} y={DEVICE.height / 2 + 5} textAnchor="middle">
        {device.index}
      </text>
      {used > 0 && <rect className="use" x={3} y={DEVICE.height - 6} width={((DEVICE.width - 6) * used) / 100} height={3} />}
    </g>
  );
  const order = mig ? null : orderOf(device);
  return order === null ? body : <a href={href(["orders", order])}>{body}</a>;
}

function Cut({ cut }: { cut: { from: number; width: number; slice: Slice | null } }): ReactNode {
  const { t } = useI18n();
  const { slice } = cut;
  const state = slice?.order ? `${t("sites.held")} ${slice.order}` : t("sites.free");
  const label = slice ? `${t("sites.slice", { number: slice.number, profile: slice.profile })}: ${state}, ${t("sites.enforced")}` : t("sites.uncut");
  const classes = slice === null ? "slice is-uncut" : slice.order ? `slice is-held hue-${hueOf(slice.order)}` : "slice is-free";
  return (
    <rect className={classes} x={cut.from} width={Math.max(0, cut.width - 1)} height={DEVICE.height}>
      <title>{label}</title>
    </rect>
  );
}

function Gauge({ name, free, total, text }: { name: string; free: number; total: number; text: string }): ReactNode {
  const used = total > 0 ? Math.min(100, Math.max(0, ((total - free) / total) * 100)) : 0;
  return (
    <p className="gauge">
      <span>{name}</span>
      <span className="gauge-bar" aria-hidden="true">
        <span style={{ width: `${used}%` }} />
      </span>
      <span className="gauge-text">{text}</span>
    </p>
  );
}
