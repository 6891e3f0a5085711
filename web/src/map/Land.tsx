import { type GeoProjection, geoGraticule, geoPath } from "d3-geo";
import { type ReactNode, useMemo } from "react";
import { feature } from "topojson-client";
import type { GeometryCollection, Topology } from "topojson-specification";
import land110 from "world-atlas/land-110m.json";

import { FRAME, type Size } from "./geometry";
import { bottomTicks, leftTicks, spacing } from "./graticule";

const topology = land110 as unknown as Topology<{ land: GeometryCollection }>;
// Outlines of land only: the chart draws no borders.
const LAND = feature(topology, topology.objects.land);

interface Props {
  projection: GeoProjection;
  size: Size;
  clip: string;
}

/** Sea, shallows along the coasts, land and graticule. */
export function Land({ projection, clip }: Props): ReactNode {
  const { sphere, land, grid } = useMemo(() => {
    const path = geoPath(projection).digits(1);
    const step = spacing(projection);
    return { sphere: path({ type: "Sphere" }) ?? "", land: path(LAND) ?? "", grid: path(geoGraticule().step([step, step])()) ?? "" };
  }, [projection]);

  return (
    <g aria-hidden="true">
      <clipPath id={clip}>
        <path d={sphere} />
      </clipPath>
      <path d={sphere} className="chart-sea" />
      <g clipPath={`url(#${clip})`}>
        <path d={land} className="chart-shallows chart-shallows-wide" />
        <path d={land} className="chart-shallows" />
        <path d={land} className="chart-land" />
        <path d={grid} className="chart-grid" />
      </g>
    </g>
  );
}

/** The degrees along the left and lower edge, as on a sea chart. */
export function Frame({ projection, size }: Omit<Props, "clip">): ReactNode {
  const { bottom, left } = useMemo(() => {
    const step = spacing(projection);
    return { bottom: bottomTicks(projection, size, step), left: leftTicks(projection, size, step) };
  }, [projection, size]);
  const floor = size.height - FRAME.bottom;

  return (
    <g aria-hidden="true" className="chart-frame">
      <rect x={0} y={floor} width={size.width} height={FRAME.bottom} />
      <rect x={0} y={0} width={FRAME.left} height={size.height} />
      <path d={`M${FRAME.left} 0V${floor}H${size.width}`} />
      {bottom.map((tick) => (
        <g key={tick.text}>
          <path d={`M${tick.at.toFixed(1)} ${floor}v4`} />
          <text x={tick.at} y={size.height - 4} textAnchor="middle">
            {tick.text}
          </text>
        </g>
      ))}
      {left.map((tick) => (
        <g key={tick.text}>
          <path d={`M${FRAME.left} ${tick.at.toFixed(1)}h-4`} />
          <text x={27} y={tick.at + 3.5} textAnchor="end">
            {tick.text}
          </text>
        </g>
      ))}
    </g>
  );
}
