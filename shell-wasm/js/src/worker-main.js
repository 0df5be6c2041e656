import { serve } from './worker.js';

serve(self);
