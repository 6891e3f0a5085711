import { Fragment, type ReactNode } from "react";

import type { Leg, Plan } from "../api/types";
import { useI18n } from "../i18n";
import { href } from "../router";
import { Time } from "./tags";

/** Where the components run, and by which links their bytes travel. */
export function PlanView({ plan }: { plan: Plan }): ReactNode {
  const { t } = useI18n();
  return (
    <>
      <dl className="facts">
        <dt>{t("col.start")}</dt>
        <dd>
          <Time at={plan.start} />
        </dd>
        <dt>{t("col.finish")}</dt>
        <dd>
          <Time at={plan.finish} />
        </dd>
      </dl>
      <h3>{t("order.placement")}</h3>
      <div className="table-box">
        <table>
          <thead>
            <tr>
              <th scope="col">{t("col.component")}</th>
              <th scope="col">{t("col.site")}</th>
              <th scope="col" className="num">
                {t("col.replicas")}
              </th>
              <th scope="col">{t("col.model")}</th>
            </tr>
          </thead>
          <tbody>
            {plan.components.flatMap((component) =>
              component.assignments.map((one) => (
                <tr key={`${component.name} ${one.site} ${one.model ?? ""}`}>
                  <th scope="row">{component.name}</th>
                  <td>
                    <a href={href(["sites", one.site])}>{one.site}</a>
                  </td>
                  <td className="num">{one.replicas}</td>
                  <td>{one.model ? `${one.devices_per_replica ?? 1} × ${one.model}` : "CPU"}</td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      </div>
      {plan.flows && plan.flows.length > 0 && (
        <>
          <h3>{t("order.flows")}</h3>
          <div className="table-box">
            <table>
              <thead>
                <tr>
                  <th scope="col">{t("col.flow")}</th>
                  <th scope="col">{t("col.path")}</th>
                  <th scope="col" className="num">
                    {t("col.rate")}
                  </th>
                  <th scope="col" className="num">
                    {t("col.volume")}
                  </th>
                  <th scope="col" className="num">
                    {t("col.latency")}
                  </th>
                </tr>
              </thead>
              <tbody>
                {plan.flows.map((leg, index) => (
                  <LegRow key={`${leg.flow} ${leg.from_site} ${leg.to_site} ${index}`} leg={leg} />
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}

function LegRow({ leg }: { leg: Leg }): ReactNode {
  const { t, format } = useI18n();
  const load = leg.volume_bytes
    ? format.bytes(leg.volume_bytes)
    : leg.demand_mrps
      ? t("order.volume.demand", { value: format.number(leg.demand_mrps / 1000) })
      : "–";
  return (
    <tr>
      <th scope="row">
        <span className="leg-ends">
          {leg.from} → {leg.to}
        </span>
        <span className="leg-sites">
          {leg.from_site === leg.to_site ? leg.from_site : `${leg.from_site} → ${leg.to_site}`}
        </span>
      </th>
      <td>
        {leg.path.length === 0 ? (
          <span className="is-dim">{t("order.samesite")}</span>
        ) : (
          <span className="path">
            {leg.path.map((id, index) => (
              <Fragment key={id}>
                {index > 0 && <span aria-hidden="true"> › </span>}
                <a href={href(["links", id])}>{id}</a>
              </Fragment>
            ))}
          </span>
        )}
      </td>
      <td className="num">{leg.rate_kbps ? format.rate(leg.rate_kbps) : "–"}</td>
      <td className="num">{load}</td>
      <td className="num">{leg.path.length > 0 && leg.latency_us ? format.latency(leg.latency_us) : "–"}</td>
    </tr>
  );
}
