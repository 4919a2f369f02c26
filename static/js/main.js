// Loaded by every page. Each module adds something; without any of them the page still works.

import './keys.js';
import './theme.js';
import './copy.js';
import './controls.js';
import './tables.js';
import { showActiveTab } from './tabs.js';

showActiveTab();
document.documentElement.dataset.scripts = 'on';
