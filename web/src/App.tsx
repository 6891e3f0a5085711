import { lazy, type ReactNode, Suspense, useEffect } from "react";

import { LiveProvider } from "./api/live";
import { useI18n } from "./i18n";
import { Login } from "./pages/Login";
import { Boundary, Empty, Loading } from "./parts/Answer";
import { Shell } from "./parts/Shell";
import { type Location, useLocation } from "./router";
import { useSession } from "./session";

// Each page comes when it is first opened, so that the way in stays small; the rest follow when there is time, so
// that they are there when the server is not.
const load = {
  map: () => import("./pages/MapPage"),
  orders: () => import("./pages/Orders"),
  order: () => import("./pages/OrderPage"),
  newOrder: () => import("./pages/NewOrder"),
  sites: () => import("./pages/Sites"),
  site: () => import("./pages/SitePage"),
  links: () => import("./pages/Links"),
  link: () => import("./pages/LinkPage"),
  routes: () => import("./pages/Routes"),
};
const MapPage = lazy(load.map);
const Orders = lazy(load.orders);
const OrderPage = lazy(load.order);
const NewOrder = lazy(load.newOrder);
const Sites = lazy(load.sites);
const SitePage = lazy(load.site);
const Links = lazy(load.links);
const LinkPage = lazy(load.link);
const Routes = lazy(load.routes);

const REST_AFTER_MS = 3_000;

function usePagesAhead(): void {
  useEffect(() => {
    const timer = setTimeout(() => Object.values(load).forEach((one) => void one().catch(() => undefined)), REST_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
}

export function App(): ReactNode {
  const session = useSession();
  if (session.token === null) return <Login cause={session.cause} />;
  return (
    <LiveProvider>
      <Shell>
        <Page />
      </Shell>
    </LiveProvider>
  );
}

function Page(): ReactNode {
  const location = useLocation();
  const { t } = useI18n();
  const name = location.path.join("/");
  usePagesAhead();
  useEffect(() => {
    document.title = [...location.path.slice().reverse(), t("app.name")].join(" · ");
  }, [location, t]);
  return (
    <Boundary
      key={name}
      fallback={(error) => (
        <div className="page">
          <Empty title={t("error.crash")} hint={error.message}>
            <button type="button" className="button" onClick={() => window.location.reload()}>
              {t("error.reload")}
            </button>
          </Empty>
        </div>
      )}
    >
      <Suspense fallback={<Loading />}>{pageFor(location)}</Suspense>
    </Boundary>
  );
}

function pageFor({ path, query }: Location): ReactNode {
  const [noun, id] = path;
  switch (noun) {
    case undefined:
      return <MapPage order={query.get("order") ?? ""} />;
    case "orders":
      if (id === "new") return <NewOrder />;
      return id === undefined ? <Orders state={query.get("state") ?? ""} /> : <OrderPage id={id} />;
    case "sites":
      return id === undefined ? <Sites /> : <SitePage name={id} />;
    case "links":
      return id === undefined ? <Links /> : <LinkPage id={id} />;
    case "routes":
      return <Routes />;
    default:
      return <NotFound />;
  }
}

function NotFound(): ReactNode {
  const { t } = useI18n();
  return (
    <div className="page">
      <Empty title={t("error.notfound")} hint={t("error.notfound.hint")} />
    </div>
  );
}
