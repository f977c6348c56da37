// Keeps the spawn page's figures new while it is open, and keeps the choice in the address.
//
// The page works without it. Texts come from the hub ready to be shown; nothing here is put in as HTML.

(() => {
  'use strict';

  const KEY = 'vgpu_profile';
  const fieldset = document.querySelector('.jupyter-vgpu-profiles');
  const state = document.getElementById('jupyter-vgpu-state');
  const news = document.getElementById('jupyter-vgpu-news');
  const rows = new Map(
    Array.from(fieldset.querySelectorAll('[data-profile]'), row => [
      row.dataset.profile,
      {
        button: row.querySelector('input'),
        free: row.querySelector('.jupyter-vgpu-free'),
        isRefused: row.dataset.refused !== undefined
      }
    ])
  );

  /** Have a text read aloud, and seen where it is more than what stands on the page anyway. */
  function say(text, isSeen) {
    news.textContent = text;
    news.className = isSeen ? 'form-text' : 'visually-hidden';
  }

  /** Choose the profile that the address names behind its `#`. */
  function takeFromAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1)).get(KEY);
    if (wanted === null) {
      return;
    }
    const row = rows.get(wanted);
    if (row === undefined) {
      say(`The link names ${wanted}, which you are not offered.`, true);
    } else if (row.button.disabled) {
      row.button.checked = false;
      say(`The link names ${wanted}, which cannot be had now.`, true);
    } else {
      row.button.checked = true;
    }
  }

  /** Make the address one that leads to this choice. */
  function putIntoAddress(name) {
    history.replaceState(null, '', `#${new URLSearchParams({ [KEY]: name })}`);
  }

  /** Show what the hub says of one profile; return what has changed, or nothing. */
  function update({ name, note, can_be_chosen }) {
    const row = rows.get(name);
    if (row === undefined || row.isRefused || row.free.textContent === note) {
      return '';
    }
    row.free.textContent = note;
    row.button.disabled = !can_be_chosen;
    if (row.button.checked && row.button.disabled) {
      // A disabled choice would not be sent, and the hub would take the default for it.
      row.button.checked = false;
      return `${name} can no longer be had; choose another.`;
    }
    return `${name}: ${note}`;
  }

  function follow(url) {
    const source = new EventSource(url);
    let hasFailed = false;
    source.onmessage = message => {
      const event = JSON.parse(message.data);
      state.textContent = event.state;
      state.className = event.is_known ? 'text-muted' : 'alert alert-warning';
      const hadChoice = fieldset.querySelector('input:checked') !== null;
      const changes = event.offers.map(update).filter(Boolean);
      const lostChoice = hadChoice && fieldset.querySelector('input:checked') === null;
      if (changes.length || hasFailed) {
        say(changes.join(' '), lostChoice);
      }
      hasFailed = false;
    };
    source.onerror = () => {
      hasFailed = true;
      const time = new Date().toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
      say(`The figures are of ${time}; newer ones do not come.`, true);
    };
    addEventListener('pagehide', () => source.close());
  }

  for (const [name, row] of rows) {
    row.button.addEventListener('change', () => putIntoAddress(name));
  }
  addEventListener('hashchange', takeFromAddress);
  takeFromAddress();
  if (fieldset.dataset.live) {
    follow(fieldset.dataset.live);
  }
})();
