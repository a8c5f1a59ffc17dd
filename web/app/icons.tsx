/** The outlines of the navigation, drawn on 24 × 24. */
const PATHS = {
  overview: "M4 19V9m5.3 10V5m5.4 14v-7M20 19V8",
  apps: "M4 4h6.5v6.5H4zM13.5 4H20v6.5h-6.5zM4 13.5h6.5V20H4zM13.5 13.5H20V20h-6.5z",
  runs: "M5 4.5v15l14-7.5z",
  keys: "M8 11.5a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM11 13l8.5-8.5m-4 4 2.5 2.5m.5-5.5 2 2",
  webhooks: "M9 8a3 3 0 1 1 4.2 2.8L16 16m-7-2.5A3 3 0 1 0 10 18h6m2.5-4a3 3 0 1 1-1 5.8",
  files: "M3.5 6.5h6l2 2.5h9v9.5h-17z",
  usage: "M4 20h16M6.5 16v-5m5.5 5V5m5.5 11V9",
  audit: "M6 3.5h9l4 4v13H6zM9 12h7m-7 4h7",
  nodes: "M4 4.5h16v6H4zM4 13.5h16v6H4zM7.5 7.5h.01m-.01 9h.01",
  hardware: "M7 7h10v10H7zM10 10h4v4h-4zM9.5 4v3m5-3v3m-5 10v3m5-3v3M4 9.5h3m-3 5h3m10-5h3m-3 5h3",
  settings:
    "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 3v3m0 12v3M3 12h3m12 0h3M5.6 5.6l2.2 2.2m8.4 8.4 2.2 2.2m0-12.8-2.2 2.2m-8.4 8.4-2.2 2.2",
  search: "M10.5 4.5a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM15 15l5 5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2m0 15v2M2.5 12h2m15 0h2M5.3 5.3l1.4 1.4m10.6 10.6 1.4 1.4m0-13.4-1.4 1.4M6.7 17.3l-1.4 1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  menu: "M4 7h16M4 12h16M4 17h16",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({
  name,
  className = "size-4.5",
}: {
  readonly name: IconName;
  readonly className?: string;
}) {
  return (
    <svg
      aria-hidden="true"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.7"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={className}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
