import type { ReactNode } from "react";

import { useI18n } from "../i18n";
import { type Colouring, DELAY_STEPS_US, USE_STEPS } from "./scales";
import { outline, type Shape } from "./shapes";

const TIERS: { shape: Shape; key: "tier.core" | "tier.cloud" | "tier.edge" | "tier.device" | "tier.transit" | "tier.opaque"; size: number }[] = [
  { shape: "square", key: "tier.core", size: 5.5 },
  { shape: "circle", key: "tier.cloud", size: 5.5 },
  { shape: "triangle", key: "tier.edge", size: 6 },
  { shape: "diamond", key: "tier.device", size: 6 },
  { shape: "ring", key: "tier.transit", size: 4 },
  { shape: "cross", key: "tier.opaque", size: 4 },
];
const STATES = ["ready", "draining", "lost", "never_seen"] as const;

export function Legend({ colouring, withPath }: { colouring: Colouring; withPath: boolean }): ReactNode {
  const { t, format } = useI18n();
  const steps = colouring === "delay" ? DELAY_STEPS_US.map((us) => `${us / 1000}`) : USE_STEPS.map((ratio) => format.percent(ratio));
  return (
    <section className="legend" aria-label={t("map.legend")}>
      <h2>{t("map.legend")}</h2>
      <div className="legend-scale" aria-hidden="true">
        {[0, 1, 2, 3, 4].map((level) => (
          <span key={level} style={{ background: `var(--scale-${level})` }} />
        ))}
        {steps.map((text, at) => (
          <b key={text} style={{ left: `${(at + 1) * 20}%` }}>
            {text}
          </b>
        ))}
        {colouring === "delay" && <b className="legend-unit">ms</b>}
      </div>
      <ul className="legend-list">
        <li>
          <svg width="26" height="10" aria-hidden="true">
            <path d="M0 5H26" className="legend-line is-stale" />
          </svg>
          {t("map.legend.stale")}
        </li>
        <li>
          <svg width="26" height="10" aria-hidden="true">
            <path d="M0 5H26" className="legend-line is-estimated" />
          </svg>
          {t("map.legend.estimated")}
        </li>
        {withPath && (
          <li>
            <svg width="26" height="10" aria-hidden="true">
              <path d="M0 5H26" className="legend-path" />
            </svg>
            {t("map.legend.path")}
          </li>
        )}
      </ul>
      <ul className="legend-list is-wide">
        {TIERS.map((tier) => (
          <li key={tier.key}>
            <svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true" className={tier.shape === "ring" || tier.shape === "cross" ? "node is-transit" : "node is-plain"}>
              <path d={outline(tier.shape, tier.size)} className="node-mark" />
            </svg>
            {t(tier.key)}
          </li>
        ))}
      </ul>
      <ul className="legend-list is-wide">
        {STATES.map((state) => (
          <li key={state}>
            <svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true" className={`node is-${state}`}>
              <path d={outline("circle", 5.5)} className="node-mark" />
              {state === "lost" && <path d={outline("cross", 6)} className="node-strike" />}
              {state === "draining" && <path d="M-8 0H8" className="node-strike" />}
            </svg>
            {t(`site.${state}`)}
          </li>
        ))}
      </ul>
    </section>
  );
}
