import { Page } from "../../parts/page.tsx";

export function AppSettings() {
  return <Page title="AppSettings">NOT WRITTEN</Page>;
}
