import type { ReactNode } from "react";

import { useRoutes } from "../api/queries";
import type { Route } from "../api/types";
import { useI18n } from "../i18n";
import { Answer, Empty } from "../parts/Answer";
import { StateTag } from "../parts/tags";
import { href } from "../router";

export default function Routes(): ReactNode {
  const { t, format } = useI18n();
  const routes = useRoutes();
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("routes.title")}</h1>
      </header>
      <Answer query={routes}>
        {(known) =>
          known.length === 0 ? (
            <Empty title={t("routes.empty")} hint={t("routes.empty.hint")} />
          ) : (
            <div className="table-box">
              <table>
                <caption className="visually-hidden">{t("routes.title")}</caption>
                <thead>
                  <tr>
                    <th scope="col">{t("col.route")}</th>
                    <th scope="col">{t("col.state")}</th>
                    <th scope="col">{t("col.order")}</th>
                    <th scope="col">{t("col.path")}</th>
                    <th scope="col" className="num">
                      {t("col.rate")}
                    </th>
                    <th scope="col" className="num">
                      {t("col.latency")}
                    </th>
                    <th scope="col" className="num">
                      {t("col.bytes")}
                    </th>
                    <th scope="col">{t("col.provider")}</th>
                  </tr>
                </thead>
                <tbody>
                  {known.map((route) => (
                    <tr key={`${route.order} ${route.generation ?? 0} ${route.leg ?? 0}`}>
                      <th scope="row">
                        {route.from} → {route.to}
                      </th>
                      <td>
                        <StateTag kind="route" value={route.state} />
                        {route.trouble && <p className="hint">{route.trouble}</p>}
                      </td>
                      <td>
                        <a href={href(["orders", route.order])}>{route.order_name ?? route.order}</a>
                      </td>
                      <td className="path">
                        {route.path.map((id, index) => (
                          <span key={id}>
                            {index > 0 && <span aria-hidden="true"> › </span>}
                            <a href={href(["links", id])}>{id}</a>
                          </span>
                        ))}
                        {(route.others ?? []).map((other) => (
                          <div key={`${other.role} ${other.path.join(" ")}`} className="hint">
                            {t(`path.${other.role}`)}: {other.path.join(" › ")}
                          </div>
                        ))}
                      </td>
                      <td className="num">{route.rate_kbps ? format.rate(route.rate_kbps) : "–"}</td>
                      <td className="num">
                        <Delay route={route} />
                      </td>
                      <td className="num"><Moved hops={route.hops ?? []} /></td>
                      <td>
                        {route.provider ?? "–"}
                        {route.encrypted && <span className="flag">{t("links.encrypted")}</span>}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Answer>
    </div>
  );
}

/** Measured by the links now, or over the path before it carried; and what was promised. */
function Delay({ route }: { route: Route }): ReactNode {
  const { format } = useI18n();
  const measured = route.measured?.links_latency_us ?? route.measured?.latency_us;
  const promised = route.promised_us;
  if (measured == null && promised == null) return "–";
  return (
    <span>
      {measured == null ? "–" : format.latency(measured)}
      {promised != null && ` / ${format.latency(promised)}`}
    </span>
  );
}

/** What has arrived at the far end; pointing at it says what each point has seen. */
function Moved({ hops }: { hops: NonNullable<Route["hops"]> }): ReactNode {
  const { format } = useI18n();
  const last = hops.at(-1);
  if (!last) return "–";
  return <span title={hops.map((hop) => `${hop.point} ${format.bytes(hop.bytes)}`).join(" → ")}>{format.bytes(last.bytes)}</span>;
}
