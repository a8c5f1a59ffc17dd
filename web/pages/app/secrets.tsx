import { Page } from "../../parts/page.tsx";

export function AppSecrets() {
  return <Page title="AppSecrets">NOT WRITTEN</Page>;
}
