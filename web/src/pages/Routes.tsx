import type { ReactNode } from "react";

import { useRoutes } from "../api/queries";
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
                      {t("col.bytes")}
                    </th>
                    <th scope="col">{t("col.provider")}</th>
                  </tr>
                </thead>
                <tbody>
                  {known.map((route) => (
                    <tr key={route.id}>
                      <th scope="row">
                        {route.from_site && route.to_site ? `${route.from_site} → ${route.to_site}` : <span className="mono">{route.id}</span>}
                      </th>
                      <td>
                        <StateTag kind="route" value={route.state} />
                      </td>
                      <td>
                        {route.order ? (
                          <a className="mono" href={href(["orders", route.order])}>
                            {route.order.slice(-8)}
                          </a>
                        ) : (
                          "–"
                        )}
                      </td>
                      <td className="path">
                        {(route.path ?? []).map((id, index) => (
                          <span key={id}>
                            {index > 0 && <span aria-hidden="true"> › </span>}
                            <a href={href(["links", id])}>{id}</a>
                          </span>
                        ))}
                      </td>
                      <td className="num">{route.rate_kbps ? format.rate(route.rate_kbps) : "–"}</td>
                      <td className="num">{typeof route.bytes === "number" ? format.bytes(route.bytes) : "–"}</td>
                      <td>{route.provider ?? "–"}</td>
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
