import { lazy, type ReactNode, Suspense, useMemo, useState } from "react";

import { useDatasets, useLinks, useOrder, useOrders, useRegions, useSites, useTransit } from "../api/queries";
import type { Order } from "../api/types";
import { useI18n } from "../i18n";
import { Figures } from "../map/Figures";
import { Legend } from "../map/Legend";
import type { Picked } from "../map/Marks";
import type { MapData } from "../map/NetworkMap";
import { type Colouring, isSlow } from "../map/scales";
import { Answer, Empty, Loading } from "../parts/Answer";
import { Metrics } from "../parts/Metrics";
import { linksOf, sitesOf } from "../parts/plan";
import { href, navigate } from "../router";

const NetworkMap = lazy(() => import("../map/NetworkMap"));

/** Sites, links and what is measured on them, live. */
export default function MapPage({ order }: { order: string }): ReactNode {
  const { t } = useI18n();
  const sites = useSites();
  const transit = useTransit();
  const links = useLinks();
  const regions = useRegions();
  const datasets = useDatasets();
  const [colouring, setColouring] = useState<Colouring>("delay");
  const [picked, setPicked] = useState<Picked | null>(null);

  return (
    <div className="map-page">
      <h1 className="visually-hidden">{t("map.title")}</h1>
      <Metrics />
      <Answer query={sites}>
        {(known) => {
          const data: MapData = {
            sites: known,
            transit: transit.data ?? [],
            links: links.data ?? [],
            regions: regions.data ?? [],
            datasets: datasets.data ?? [],
          };
          if (known.length === 0) return <Empty title={t("map.empty")} hint={t("map.empty.hint")} />;
          return (
            <WithOrder id={order}>
              {(shown) => (
                <div className="map-split">
                  <Suspense fallback={<Loading />}>
                    <Chart data={data} colouring={colouring} picked={picked} onPick={setPicked} order={shown} />
                  </Suspense>
                  <aside className="map-side">
                    <ColourChoice value={colouring} onChange={setColouring} />
                    <OrderChoice id={order} shown={shown} />
                    {picked ? <Pinned picked={picked} data={data} onClear={() => setPicked(null)} /> : <p className="hint">{t("map.pick")}</p>}
                    <Attention data={data} />
                    <Legend colouring={colouring} withPath={shown !== null} />
                  </aside>
                </div>
              )}
            </WithOrder>
          );
        }}
      </Answer>
    </div>
  );
}

function WithOrder({ id, children }: { id: string; children: (order: Order | null) => ReactNode }): ReactNode {
  return id === "" ? children(null) : <KnownOrder id={id}>{children}</KnownOrder>;
}

function KnownOrder({ id, children }: { id: string; children: (order: Order | null) => ReactNode }): ReactNode {
  return children(useOrder(id).data ?? null);
}

interface ChartProps {
  data: MapData;
  colouring: Colouring;
  picked: Picked | null;
  onPick: (picked: Picked | null) => void;
  order: Order | null;
}

function Chart({ data, colouring, picked, onPick, order }: ChartProps): ReactNode {
  const path = useMemo(() => linksOf(order?.plan), [order]);
  const chosen = useMemo(() => sitesOf(order?.plan), [order]);
  return <NetworkMap data={data} colouring={colouring} path={path} chosen={chosen} picked={picked} onPick={onPick} />;
}

function ColourChoice({ value, onChange }: { value: Colouring; onChange: (value: Colouring) => void }): ReactNode {
  const { t } = useI18n();
  const choices: Colouring[] = ["delay", "use"];
  return (
    <fieldset className="choice">
      <legend>{t("map.colour")}</legend>
      {choices.map((choice) => (
        <label key={choice}>
          <input type="radio" name="colouring" value={choice} checked={value === choice} onChange={() => onChange(choice)} />
          <span>{t(`map.colour.${choice}`)}</span>
        </label>
      ))}
    </fieldset>
  );
}

function OrderChoice({ id, shown }: { id: string; shown: Order | null }): ReactNode {
  const { t } = useI18n();
  const orders = useOrders("");
  const listed = (orders.data?.pages.flatMap((page) => page.items) ?? []).filter((order) => order.plan);
  const options = shown && !listed.some((order) => order.id === shown.id) ? [shown, ...listed] : listed;
  return (
    <label className="field">
      <span>{t("map.order")}</span>
      <select value={id} onChange={(event) => navigate(href([], event.target.value ? { order: event.target.value } : {}), "replace")}>
        <option value="">{t("map.order.none")}</option>
        {options.map((order) => (
          <option key={order.id} value={order.id}>
            {order.name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Pinned({ picked, data, onClear }: { picked: Picked; data: MapData; onClear: () => void }): ReactNode {
  const { t } = useI18n();
  const page = picked.kind === "link" ? ["links", picked.id] : picked.kind === "site" ? ["sites", picked.id] : null;
  return (
    <section className="pinned" aria-live="polite">
      <Figures picked={picked} data={data} />
      <p className="pinned-acts">
        {page && <a href={href(page)}>{t("map.open")}</a>}
        <button type="button" className="quiet" onClick={onClear}>
          {t("map.clear")}
        </button>
      </p>
    </section>
  );
}

const NOT_READY = { lost: "map.lost", draining: "map.draining", never_seen: "map.never" } as const;

function isNotReady(state: string): state is keyof typeof NOT_READY {
  return state in NOT_READY;
}

function Attention({ data }: { data: MapData }): ReactNode {
  const { t, format } = useI18n();
  const stale = data.links.filter((link) => link.stale).length;
  const slow = data.links.filter((link) => !link.stale && isSlow(link));
  const items: ReactNode[] = data.sites.flatMap((site) =>
    isNotReady(site.state)
      ? [
          <li key={`site ${site.name}`} className={site.state === "lost" ? "is-bad" : "is-warn"}>
            <a href={href(["sites", site.name])}>{t(NOT_READY[site.state], { name: site.name })}</a>
          </li>,
        ]
      : [],
  );
  if (stale > 0) {
    items.push(
      <li key="stale" className="is-warn">
        <a href={href(["links"])}>{t("map.stalelinks", { count: stale })}</a>
      </li>,
    );
  }
  for (const link of slow) {
    const delta = format.latency((link.latency_us ?? 0) - link.configured_latency_us);
    items.push(
      <li key={`link ${link.id}`} className="is-warn">
        <a href={href(["links", link.id])}>{t("map.slow", { id: link.id, delta })}</a>
      </li>,
    );
  }
  return (
    <section>
      <h2>{t("map.attention")}</h2>
      {items.length === 0 ? <p className="hint">{t("map.quiet")}</p> : <ul className="attention">{items}</ul>}
    </section>
  );
}
