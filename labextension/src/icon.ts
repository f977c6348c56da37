import { LabIcon } from '@jupyterlab/ui-components';

/** A chip of which one quarter is filled. */
export const sliceIcon = new LabIcon({
  name: 'jupyter-vgpu:slice',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="var(--jp-ui-font-color1)">
    <path fill-rule="evenodd" d="M6 4h12a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2Zm.5 1.8a.7.7 0 0 0-.7.7v11c0 .4.3.7.7.7h11c.4 0 .7-.3.7-.7v-11a.7.7 0 0 0-.7-.7Z"/>
    <path d="M12 8h4v4h-4z"/>
    <path d="M8 1.5h1.6V4H8zM14.4 1.5H16V4h-1.6zM8 20h1.6v2.5H8zM14.4 20H16v2.5h-1.6zM1.5 8H4v1.6H1.5zM1.5 14.4H4V16H1.5zM20 8h2.5v1.6H20zM20 14.4h2.5V16H20z"/>
  </g>
</svg>`
});
