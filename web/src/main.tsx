import { render, type JSX } from "preact";
import "./keys";
import { goLive } from "./live";
import { ComparePage } from "./pages/compare/compare";
import { RunPage } from "./pages/run/run";
import { RunList } from "./pages/runs/list";
import { TunePage } from "./pages/tune/tune";
import { Empty } from "./parts/small";
import { ThemeSwitch } from "./parts/theme";
import { route } from "./route";
import { begin, notice, trouble } from "./state";
import "./style.css";

function Page(): JSX.Element {
  return (
    <>
      {trouble.value?.code === 401 || trouble.value?.code === 403 ? (
        <Locked />
      ) : location.pathname === "/compare" ? (
        <ComparePage />
      ) : location.pathname.startsWith("/tune/") ? (
        <TunePage />
      ) : route.value.run === null ? (
        <RunList />
      ) : (
        <RunPage />
      )}
      {notice.value && (
        <div class={notice.value.bad ? "notice bad" : "notice"} role={notice.value.bad ? "alert" : "status"}>
          {notice.value.text}
        </div>
      )}
    </>
  );
}

function Locked(): JSX.Element {
  return (
    <div class="run-page bare">
      <header class="top">
        <span class="brand">Tensight</span>
        <span class="grow" />
        <ThemeSwitch />
      </header>
      <Empty title="This page needs its token">
        <p>
          Open the whole address that Tensight has printed in the terminal; it ends in <code>?token=…</code>. The token
          keeps other users of this machine out.
        </p>
      </Empty>
    </div>
  );
}

void begin().then(() => {
  if (trouble.peek()?.code !== 401) goLive();
});
render(<Page />, document.getElementById("page")!);
