// The token stands behind the "#" of the address that the terminal prints: no browser sends that part anywhere.
(function () {
  "use strict";
  const enter = () => {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (!given) return;
    history.replaceState(null, "", location.pathname + location.search);
    fetch("/login", { method: "POST", body: new URLSearchParams({ token: given }), redirect: "manual" }).then(async (answer) => {
      if (answer.type === "opaqueredirect") return location.replace(location.pathname === "/login" ? "/" : location.pathname + location.search);
      const said = new DOMParser().parseFromString(await answer.text(), "text/html"), wrong = document.querySelector(".wrong");
      wrong.textContent = [...said.querySelectorAll("main .wrong, main .wrong + p")].map((one) => one.textContent).join(" ");
      wrong.hidden = false;
    });
  };
  enter();
  window.addEventListener("hashchange", enter); // the address was put into a page that stood here already
})();
