import { Page } from "../../parts/page.tsx";

export function AppPage() {
  return <Page title="AppPage">NOT WRITTEN</Page>;
}
