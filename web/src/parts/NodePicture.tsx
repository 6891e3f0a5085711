import type { ReactNode } from "react";

import type { Device, SiteNode } from "../api/types";
import { useI18n } from "../i18n";
import { href } from "../router";
import { hueOf, islands, isSick, orderOf } from "./islands";

/** A node as a drawing: devices in their NVLink islands, those held marked by order, and what CPU and memory are left. */
export function NodePicture({ node }: { node: SiteNode }): ReactNode {
  const { t, format } = useI18n();
  const cpu = { free: format.number(node.cpu_milli_free / 1000, 1), total: format.number(node.cpu_milli_total / 1000, 1) };
  const memory = { free: format.memory(node.memory_bytes_free), total: format.memory(node.memory_bytes_total) };
  return (
    <article className="node-card">
      <h3>{node.name}</h3>
      <div className="islands">
        {islands(node.devices ?? []).map((island) => (
          <div key={island.index ?? "none"} className={island.index === null ? "island is-loose" : "island"} title={t(island.index === null ? "sites.noisland" : "sites.island", { index: island.index ?? "" })}>
            {island.devices.map((device) => (
              <DeviceMark key={device.index} device={device} />
            ))}
            <span className="island-name">
              {island.devices[0]?.model}
              {island.index !== null && <span className="island-link"> · NVLink {island.index}</span>}
            </span>
          </div>
        ))}
      </div>
      <Gauge name={t("sites.cpu")} free={node.cpu_milli_free} total={node.cpu_milli_total} text={t("sites.of", cpu)} />
      <Gauge name={t("sites.memory")} free={node.memory_bytes_free} total={node.memory_bytes_total} text={t("sites.of", memory)} />
    </article>
  );
}

function DeviceMark({ device }: { device: Device }): ReactNode {
  const { t, format } = useI18n();
  const sick = isSick(device);
  const part = device.share !== undefined && device.share > 0 && device.share < 1000 ? device.share / 1000 : null;
  const held = device.order ? `${t("sites.held")} ${device.order}${part === null ? "" : ` (${format.percent(part)})`}` : null;
  const state = held ?? (sick ? `${t("sites.sick")} ${device.health ?? ""}` : t("sites.free"));
  const label = t("sites.device", { index: device.index, model: device.model, memory: format.memory(device.memory_bytes), state });
  const classes = `device ${device.order ? `is-held hue-${hueOf(device.order)}` : "is-free"} ${part === null ? "" : "is-shared"} ${sick ? "is-sick" : ""}`;
  const order = orderOf(device);
  if (order === null) return <span className={classes} role="img" aria-label={label} title={label} />;
  return (
    <a className={classes} href={href(["orders", order])} aria-label={label} title={label}>
      {order.slice(-3)}
    </a>
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
