import { type ReactNode, useId, useMemo, useRef, useState } from "react";

import type { Dataset, Link, Place, Region, Site, Transit } from "../api/types";
import { useI18n } from "../i18n";
import { Figures } from "./Figures";
import { fittedProjection, viewed } from "./geometry";
import { Frame, Land } from "./Land";
import { type Hot, Labels, LinkMarks, NodeMarks, type Picked } from "./Marks";
import type { Colouring } from "./scales";
import { buildScene, hasPlace } from "./scene";
import { useChartView, useSize } from "./useChartView";

export interface MapData {
  sites: readonly Site[];
  transit: readonly Transit[];
  links: readonly Link[];
  regions?: readonly Region[];
  datasets?: readonly Dataset[];
}

interface Props {
  data: MapData;
  colouring: Colouring;
  /** Links and sites of the order shown. */
  path?: ReadonlySet<string>;
  chosen?: ReadonlySet<string>;
  picked: Picked | null;
  onPick: (picked: Picked | null) => void;
  /** Names of the points to fit to; all of them where there are none. */
  fitTo?: ReadonlySet<string>;
}

const NOTHING: ReadonlySet<string> = new Set();
const PADDING_PX = 56;

export default function NetworkMap({ data, colouring, path = NOTHING, chosen = NOTHING, picked, onPick, fitTo = NOTHING }: Props): ReactNode {
  const { t } = useI18n();
  const box = useRef<HTMLDivElement>(null);
  const size = useSize(box);
  const chart = useChartView(box, size);
  const clip = useId();
  const [hot, setHot] = useState<Hot | null>(null);

  // Positions change seldom; a key of them keeps the fit still while figures change.
  const placesKey = JSON.stringify(
    [...data.sites, ...data.transit].filter((point) => hasPlace(point) && (fitTo.size === 0 || fitTo.has(point.name))).map((point) => point.place),
  );
  const base = useMemo(() => (size ? fittedProjection(JSON.parse(placesKey) as Place[], size, PADDING_PX) : null), [placesKey, size]);
  const projection = useMemo(() => (base ? viewed(base, chart.view) : null), [base, chart.view]);
  const emphasis = useMemo(() => new Set([...chosen, ...(picked && picked.kind !== "link" ? [picked.id] : [])]), [chosen, picked]);
  const scene = useMemo(() => (projection && size ? buildScene(data, projection, size, emphasis) : null), [data, projection, size, emphasis]);

  const describe = useDescription(data);
  const pick = (next: Picked): void => onPick(picked?.kind === next.kind && picked.id === next.id ? null : next);

  return (
    <div className="chart" ref={box} role="group" aria-label={t("map.label")} data-dragging={chart.dragging} {...chart.handlers}>
      {size && projection && scene && (
        <svg width={size.width} height={size.height} viewBox={`0 0 ${size.width} ${size.height}`}>
          <Land projection={projection} size={size} clip={clip} />
          <LinkMarks links={scene.links} colouring={colouring} path={path} picked={picked} onPick={pick} onHot={setHot} describe={describe} label={t("map.links")} />
          <Labels labels={scene.labels} />
          <NodeMarks nodes={scene.nodes} chosen={chosen} picked={picked} onPick={pick} onHot={setHot} describe={describe} label={t("map.sites")} />
          <Frame projection={projection} size={size} />
        </svg>
      )}
      <div className="chart-tools">
        <button type="button" onClick={() => chart.zoom(1.4)} aria-label={t("map.zoomin")} title={t("map.zoomin")}>
          +
        </button>
        <button type="button" onClick={() => chart.zoom(1 / 1.4)} aria-label={t("map.zoomout")} title={t("map.zoomout")}>
          −
        </button>
        <button type="button" onClick={chart.fit} disabled={chart.fitted} aria-label={t("map.fit")} title={t("map.fit")}>
          <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
            <path d="M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9" fill="none" stroke="currentColor" strokeWidth="1.6" />
          </svg>
        </button>
      </div>
      {hot && size && !chart.dragging && !(picked?.kind === hot.kind && picked.id === hot.id) && <Tip hot={hot} width={size.width} height={size.height} data={data} />}
    </div>
  );
}

const TIP_WIDTH = 276;

function Tip({ hot, width, height, data }: { hot: Hot; width: number; height: number; data: MapData }): ReactNode {
  const [x, y] = hot.at;
  const left = Math.max(8, Math.min(width - TIP_WIDTH - 8, x - TIP_WIDTH / 2));
  const vertical = y > height * 0.5 ? { bottom: height - y + 16 } : { top: y + 16 };
  return (
    <div role="tooltip" className="tip" style={{ left, width: TIP_WIDTH, ...vertical }}>
      <Figures picked={hot} data={data} brief />
    </div>
  );
}

/** What a mark is, in one sentence, for those who hear the chart. */
function useDescription(data: MapData): (picked: Picked) => string {
  const { t, word, format } = useI18n();
  return ({ kind, id }) => {
    if (kind === "link") {
      const link = data.links.find((one) => one.id === id);
      if (!link) return id;
      const measured = link.latency_us === null || link.latency_us === undefined ? t("links.unmeasured") : format.latency(link.latency_us);
      const stale = link.stale ? `, ${t("links.stale")}` : "";
      return `${id}: ${link.from} → ${link.to}, ${t("col.measured")} ${measured}, ${t("col.configured")} ${format.latency(link.configured_latency_us)}${stale}`;
    }
    if (kind === "transit") {
      const point = data.transit.find((one) => one.name === id);
      return `${id}: ${t(point?.relay === false ? "tier.opaque" : "tier.transit")}`;
    }
    const site = data.sites.find((one) => one.name === id);
    if (!site) return id;
    const devices = (site.accelerators ?? []).map((group) => `${group.model} ${group.free}/${group.total}`).join(", ");
    return `${id}: ${word("tier", site.tier)}, ${word("site", site.state)}${devices ? `, ${devices}` : ""}`;
  };
}
